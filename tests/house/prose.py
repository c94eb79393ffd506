"""The texts that users see: pages, messages, and the docstrings of public names."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.support import repository

PUBLIC_MODULES = (
    "redisson_py",
    "redisson_py.errors",
    "redisson_py.etcd",
    "redisson_py.integrations.opentelemetry",
    "redisson_py.mysql",
    "redisson_py.postgres",
    "redisson_py.pytest_plugin",
    "redisson_py.sync",
    "redisson_py.testing",
    "redisson_py.zookeeper",
)


class Text(NamedTuple):
    """A text that users see, and where it starts."""

    path: str
    row: int
    text: str


def pages() -> Iterator[Text]:
    """Yield README.md and the pages of docs/."""
    for path in (repository.ROOT / "README.md", *(repository.ROOT / "docs").rglob("*.md")):
        yield Text(repository.name(path), 1, path.read_text("utf-8"))


def messages(source: str, path: str = "") -> Iterator[Text]:
    """Yield the string literals of a Python text that are not docstrings, if they have words.

    Errors, log records and help of the command line are among them. A field of an f-string is `{}`.
    """
    tree = ast.parse(source)
    skipped = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            # A docstring, of whatever it follows.
            skipped.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(_part(part) for part in node.values)
        else:
            continue
        if re.search(r"\w \w", text):
            yield Text(path, node.lineno, text)


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def refusals(source: str, path: str = "") -> Iterator[Text]:
    """Yield the errors that a Lua script replies."""
    for number, row in enumerate(source.splitlines(), 1):
        for text in re.findall(r"error_reply\('([^']*)'\)", row):
            yield Text(path, number, text)


@functools.cache
def public_names() -> frozenset[str]:
    """Return the names of the classes and functions of the public modules, and of their bases."""
    found: set[str] = set()
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", vars(module)):
            value = getattr(module, public)
            for owner in getattr(value, "__mro__", (value,)):
                if str(getattr(owner, "__module__", "")).startswith("redisson_py"):
                    found.add(getattr(owner, "__name__", ""))
    return frozenset(found)


def docstrings(source: str, path: str) -> Iterator[Text]:
    """Yield the docstrings of public classes, with their public methods, and functions."""
    tree = ast.parse(source)
    if path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in PUBLIC_MODULES:
        yield from _docstring(tree, path)
    for node in tree.body:
        if isinstance(node, _DOCUMENTED) and node.name in public_names():
            yield from _docstring(node, path)
            for member in node.body:
                if isinstance(member, _DOCUMENTED) and (
                    not member.name.startswith("_") or member.name == "__call__"
                ):
                    yield from _docstring(member, path)


_DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, path: str
) -> Iterator[Text]:
    text = ast.get_docstring(node, clean=False)
    if text:
        yield Text(path, node.body[0].lineno, text)


def all_texts() -> list[Text]:
    """Return every text that users see."""
    texts = [*pages()]
    for path in repository.of_kind(".py", "redisson_py"):
        source, name = path.read_text("utf-8"), repository.name(path)
        texts += [*messages(source, name), *docstrings(source, name)]
    for path in repository.of_kind(".lua", "lua"):
        texts += refusals(path.read_text("utf-8"), repository.name(path))
    return texts
