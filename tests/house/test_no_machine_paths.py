"""Nothing in the repository knows the machine or the network it was written on."""

from __future__ import annotations

import re

import pytest

from tests.support import repository

#: Folders of one machine. Spelled in pieces, so that this file passes its own test.
_FOLDERS = "|".join(("work", "root", "home", "Users", "tmp", "var/folders", "private", "mnt"))
PATH = re.compile(rf"(?<![\w.~*/}}-])/(?:{_FOLDERS})/[\w.-]")
INDEX = re.compile(r"(?i)(?:extra-)?index[-_]" + r"url|trusted[-_]" + "host")
URL = re.compile(r"(?i)\bhttps?://([^/\s\"'<>)\]:]+)")
REGISTRY = re.compile(r"(?i)registry|artifactory|nexus|mirror|proxy|pypi|pythonhosted|devpi|npm")
PUBLIC = {"pypi.org", "repository.pythonhosted.org", "img.shields.io"}
UNTIDY = re.compile(r"[ \t]+$|[^\n]\Z|\n\n\Z", re.MULTILINE)
BINARY = (".png", ".svg", ".ico", ".rdb")


def findings(text: str) -> list[str]:
    """Return what in a text is true of one machine only."""
    hosts = [host for host in URL.findall(text) if REGISTRY.search(host)]
    return [
        *PATH.findall(text),
        *INDEX.findall(text),
        *(host for host in hosts if host.lower() not in PUBLIC),
    ]


def test_no_file_names_a_path_or_a_registry_of_one_machine() -> None:
    if not repository.tracked():
        pytest.skip("not a git checkout")
    found = {
        repository.name(path): here
        for path in repository.tracked()
        if path.suffix not in BINARY and (here := findings(path.read_text("utf-8")))
    }
    assert found == {}
    assert findings(f'open("/{"tmp"}/x")')
    assert findings("https" + "://registry.example.com/simple")


def test_every_text_file_ends_with_one_newline_and_no_row_with_blanks() -> None:
    untidy = [
        repository.name(path)
        for path in repository.of_kind(".py")
        + repository.of_kind(".lua")
        + repository.of_kind(".md")
        if (text := path.read_text("utf-8")) and UNTIDY.search(text)
    ]
    assert untidy == []
