"""The pages whose code blocks are run: README.md and docs/."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sybil import Document
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from tests.support import repository

DOCS = repository.ROOT / "docs"
PAGES = [repository.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

#: How a page says that a block cannot run; the line before the block.
_NOT_RUN = re.compile(r"\*Not run by our tests: (?P<reason>.+)\*\n*\Z")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
#: The other way to name a file, on pages that have tests: a comment in its first line.
_FIRST_ROW = re.compile(r"# (?P<title>\w+\.py)\n")
_INFO = re.compile(r"(?P<info>[^\n]*)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file it is in.
        row: The number of its first line of code.
        language: What the fence says first: python, sh, text.
        title: The name of the file that it is, or empty.
        code: Its text.
        not_run: Why it cannot be run, as the page says; or empty.
    """

    page: Path
    row: int
    language: str
    title: str
    code: str
    not_run: str

    @property
    def where(self) -> str:
        """Where it is, for failures."""
        return f"{repository.name(self.page)}:{self.row}"


@functools.cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page in their order."""
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    names_files = re.search(r"^# test_\w+\.py$", text, re.MULTILINE)
    for region in RawFencedCodeBlockLexer(_INFO)(Document(text, str(page))):
        info = region.lexemes["info"]
        code = region.lexemes["source"].text
        title = _TITLE.search(info) or (names_files and _FIRST_ROW.match(code))
        not_run = _NOT_RUN.search(text[: region.start])
        yield Block(
            page,
            text.count("\n", 0, region.start) + 2,
            info.split(maxsplit=1)[0] if info.strip() else "",
            title["title"] if title else "",
            code,
            not_run["reason"] if not_run else "",
        )
