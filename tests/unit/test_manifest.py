"""The manifest is fresh, and a changed script needs a new version."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from redisson_py._cli.commands.acl import commands
from redisson_py._cli.commands.scripts import render
from redisson_py._redis.scripts import source
from tests.support.command_line import invoke

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "lua" / "manifest.txt"


@pytest.fixture
def lua(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the Lua folder to change."""
    copy = tmp_path / "lua"
    shutil.copytree(ROOT / "lua", copy)
    (copy / "manifest.txt").write_text(render(source.load_all()))
    monkeypatch.setattr(source, "script_root", lambda: copy)
    return copy


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def write(lua: Path) -> int:
    return invoke("scripts", "--write", str(lua / "manifest.txt")).exit_code


def test_the_committed_manifest_is_fresh() -> None:
    assert COMMITTED.read_text() == render(source.load_all()), "run `make manifest`"


def test_a_row_names_version_shas_keys_and_arguments() -> None:
    (row,) = [row for row in COMMITTED.read_text().splitlines() if row.startswith("latch.delete ")]
    script = source.load("latch.delete")
    plain, modern, sharded = (hashlib.sha1(w.text.encode()).hexdigest() for w in script.wordings)
    assert len({plain, modern, sharded}) == 3
    assert row == (
        f"latch.delete v{script.version} {modern} plain={plain} sharded={sharded}"
        " keys=latch,receipt args=channel,calls,receipt_ms"
    )


def test_the_command_prints_it() -> None:
    assert invoke("scripts").stdout == COMMITTED.read_text()


def test_a_changed_text_under_the_same_version_is_refused(lua: Path) -> None:
    before = (lua / "manifest.txt").read_text()
    edit(lua / "lock" / "renew.lua", "return renewed", "return  renewed")
    result = invoke("scripts", "--write", str(lua / "manifest.txt"))
    assert result.exit_code == 1
    assert result.stderr == "redisson-py: raise the version of lock.renew: the text has changed\n"
    assert (lua / "manifest.txt").read_text() == before


def test_the_acl_rule_allows_what_is_needed_and_no_more() -> None:
    words = invoke("acl").stdout.split()
    assert words[:3] == ["resetkeys", "resetchannels", "-@all"]
    assert {word for word in words if word.startswith("+")} == {
        f"+{command}" for command in commands()
    }
    assert not any("@" in word for word in words[3:])


def test_a_changed_text_under_a_new_version_is_taken(lua: Path) -> None:
    version = source.load("lock.renew").version
    edit(lua / "lock" / "renew.lua", f"version  {version}", f"version  {version + 1}")
    assert write(lua) == 0
    assert f"lock.renew v{version + 1} " in (lua / "manifest.txt").read_text()
