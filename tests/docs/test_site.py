"""The site builds without a warning, needs no other host, and has every public name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import redisson_py
import redisson_py.testing
from tests.fixtures.redis_server import unavailable
from tests.support import repository

CONFIG = repository.ROOT / "docs" / "site" / "mkdocs.yml"

#: What a browser fetches by itself, by tag.
FETCHED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "object": ("data",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
#: Links of which nothing is fetched.
_NOT_FETCHED = {"canonical", "next", "prev"}


class Page(HTMLParser):
    """Collects what a page fetches, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one tag."""
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get("rel") not in _NOT_FETCHED:
            self.fetched += [values[name] for name in FETCHED.get(tag, ()) if name in values]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    if importlib.util.find_spec("material") is None:
        unavailable("mkdocs-material is not installed: `make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", CONFIG, "-d", folder],
        cwd=repository.ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr.strip(), done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page of the site, by its path."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        page = found[path.relative_to(site).as_posix()] = Page()
        page.feed(path.read_text("utf-8"))
    return found


def test_nothing_is_fetched_from_another_host(site: Path, pages: dict[str, Page]) -> None:
    fetched = [(name, each) for name, page in pages.items() for each in page.fetched]
    assert len(fetched) > len(pages), "the parser found too little"
    assert [each for each in fetched if "//" in each[1]] == []
    styles = [path for ending in ("css", "svg") for path in site.rglob(f"*.{ending}")]
    assert {path.suffix for path in styles} == {".css", ".svg"}
    others = re.compile(r"""url\(["']?(https?:)?//|@import""")
    assert [path.name for path in styles if others.search(path.read_text("utf-8"))] == []


def test_links_inside_the_site_lead_somewhere(site: Path, pages: dict[str, Page]) -> None:
    """Those from the reference and from SVGs too, which mkdocs does not look at."""
    broken = []
    for name, page in pages.items():
        if name == "404.html":
            continue
        for link in page.links:
            target, _, anchor = link.partition("#")
            if "://" in link or target.startswith(("/", "mailto:")):
                continue
            path = (site / name).parent / target if target else site / name
            there = os.path.relpath(os.path.normpath(path), site)
            if not path.exists() or (
                anchor and there in pages and anchor not in pages[there].anchors
            ):
                broken.append((name, link))
    assert broken == []


def test_reference_has_every_public_name(pages: dict[str, Page]) -> None:
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    missing = [name for name in redisson_py.__all__ if f"redisson_py.{name}" not in anchors]
    # A module: its names are there.
    assert missing == ["errors"]
    anchors = pages["reference/testing.html"].anchors
    assert {f"redisson_py.testing.{name}" for name in redisson_py.testing.__all__} <= anchors
