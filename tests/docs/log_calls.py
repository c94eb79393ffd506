"""The log calls of the package, and the rows of the table in docs/operations.md."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import repository

TABLE = repository.ROOT / "docs" / "operations.md"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

#: Stands for whatever is put into a text.
HOLE = "\0"
_PLACEHOLDER = re.compile(r"%(?:\.\d+)?[a-z]")
_CODE = re.compile(r"(``|`)(.+?)\1(?!`)")
_METHODS = {name.lower(): name for name in LEVELS} | {"exception": "ERROR"}


@dataclass(frozen=True)
class LogCall:
    """One call.

    Attributes:
        place: Its file and function.
        levels: The levels it may have.
        text: The format, with a hole for each placeholder.
    """

    place: str
    levels: frozenset[str]
    text: str


@dataclass(frozen=True)
class Row:
    """A row of the table: its levels, and the texts that it is about."""

    levels: frozenset[str]
    texts: tuple[str, ...]


def log_calls() -> list[LogCall]:
    """Return every call of a logger of the library; the command line has none of its own."""
    found: list[LogCall] = []
    for path in repository.of_kind(".py", "redisson_py"):
        if "_cli" not in path.parts:
            found += _calls_of(path)
    return found


def _calls_of(path: Path) -> Iterator[LogCall]:
    tree = ast.parse(path.read_text("utf-8"))
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in _own_nodes(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = node.func.value
            if not (isinstance(of, ast.Name) and of.id == "log"):
                continue
            if node.func.attr not in {"log", *_METHODS}:
                continue
            place = f"{repository.name(path)}:{function.name}"
            method, arguments = node.func.attr, list(node.args)
            if method == "log":
                levels = _level_names(arguments.pop(0), function)
            else:
                levels = frozenset({_METHODS[method]})
            for text in _texts(arguments[0], function):
                yield LogCall(place, levels, _PLACEHOLDER.sub(HOLE, text))


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a function, but not in those inside."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own_nodes(child)


def _level_names(node: ast.expr, function: ast.AST) -> frozenset[str]:
    nodes = [node]
    if isinstance(node, ast.Name):
        nodes = _values_of(node.id, function)
    names = {
        each.attr for top in nodes for each in ast.walk(top) if isinstance(each, ast.Attribute)
    }
    return frozenset(names & set(LEVELS))


def _texts(node: ast.expr, function: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        for value in _values_of(node.id, function):
            yield from _strings(value)
    else:
        yield from _strings(node)


def _values_of(name: str, function: ast.AST) -> list[ast.expr]:
    return [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]


def _strings(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(
                str(each.value) if isinstance(each, ast.Constant) else HOLE for each in values
            )
        case ast.IfExp(body=body, orelse=orelse):
            yield from _strings(body)
            yield from _strings(orelse)
        case ast.BinOp(left=left, right=right):
            for one in _strings(left):
                for other in _strings(right):
                    yield one + other


@functools.cache
def all_strings() -> set[str]:
    """Return every text in the package, with a hole for whatever is put into it."""
    found: set[str] = set()
    for path in repository.of_kind(".py", "redisson_py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            found.update(_PLACEHOLDER.sub(HOLE, text) for text in _strings(node))
    return found


def rows() -> list[Row]:
    """Return the rows of the table of log records."""
    text = TABLE.read_text("utf-8")
    table = text[text.index("## The log") :]
    table = table[: table.index("\n## ", 1)]
    found = []
    for line in table.splitlines():
        cells = [each.strip() for each in line.strip("|").split(" | ")]
        if line.startswith("|") and any(level in cells[0] for level in LEVELS):
            levels = frozenset(level for level in LEVELS if level in cells[0])
            found.append(Row(levels, tuple(text for _, text in _CODE.findall(cells[1]))))
    return found


def pattern(text: str) -> re.Pattern[str]:
    """Return what a text of the table matches: capitals and dots stand for anything."""
    parts = re.split(r"('?\b[A-Z]+(?:[:/][A-Z]+)?\b'?|…|\.\.\.)", text)
    return re.compile(
        "".join(".*" if index % 2 else re.escape(part) for index, part in enumerate(parts)),
        re.DOTALL,
    )
