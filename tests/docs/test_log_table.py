"""docs/operations.md explains every record that the library logs, and none that it does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support import repository

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
#: The level of each method of a logger; where it is an argument, any.
METHODS = {level.lower(): {level} for level in LEVELS} | {"exception": {"ERROR"}, "log": {*LEVELS}}
#: Stands for whatever is put into a text.
HOLE = "\0"


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    match node:
        case ast.Constant(value=str(text)):
            yield re.sub(r"%(?:\.\d+)?[a-z]", HOLE, text)
        case ast.JoinedStr(values=values):
            parts = [each.value if isinstance(each, ast.Constant) else HOLE for each in values]
            yield "".join(map(str, parts))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*texts(body), *texts(orelse))
        case ast.BinOp(left=left, right=right):
            yield from (one + other for one in texts(left) for other in texts(right))


NODES = [
    node
    for path in repository.of_kind(".py", "redisson_py")
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
]
SAID = {text for node in NODES for text in texts(node)}
#: What is logged, with the levels that it may have. That of a variable is not known here.
LOGGED = [
    (text, METHODS[method])
    for node in NODES
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Attribute)
    and isinstance(node.func.value, ast.Name)
    and node.func.value.id == "log"
    and (method := node.func.attr) in METHODS
    for text in texts(node.args[method == "log"])
    # Else it is the text of an error.
    if text != HOLE
]


def rows() -> Iterator[tuple[set[str], list[re.Pattern[str]]]]:
    """Yield the levels of each row of the table, and what matches its texts."""
    page = (repository.ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page[page.index("## The log") :]
    for row in table[: table.index("\n## ", 1)].splitlines():
        cells = [each.strip() for each in row.strip("|").split(" | ")]
        levels = {level for level in LEVELS if level in cells[0]}
        if row.startswith("|") and levels:
            yield levels, [pattern(text) for _, text in re.findall(r"(``|`)(.+?)\1(?!`)", cells[1])]


def pattern(text: str) -> re.Pattern[str]:
    """Return what a text of the table matches: capitals and dots stand for anything."""
    parts = re.split(r"('?\b[A-Z]+(?:[:/][A-Z]+)?\b'?|…|\.\.\.)", text)
    escaped = [".*" if index % 2 else re.escape(part) for index, part in enumerate(parts)]
    return re.compile("".join(escaped), re.DOTALL)


ROWS = list(rows())


@pytest.mark.parametrize(("text", "levels"), LOGGED)
def test_a_record_is_explained(text: str, levels: set[str]) -> None:
    known = [known for known, patterns in ROWS if any(each.fullmatch(text) for each in patterns)]
    assert any(each & levels for each in known), (
        f"{text.replace(HOLE, '…')!r}: {levels}, not {known}"
    )


def test_every_row_is_about_something_that_is_said() -> None:
    assert (len(LOGGED) > 30, len(ROWS) > 20) == (True, True)
    patterns = [each for _, some in ROWS for each in some]
    assert [each for each in patterns if not any(map(each.fullmatch, SAID))] == []
