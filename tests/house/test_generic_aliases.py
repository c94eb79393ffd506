"""What runs calls classes, not their subscripted forms: `ref[Task]` costs ten times `ref`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support import repository


def test_no_subscripted_class_is_called_or_made_when_something_runs() -> None:
    trees = {
        repository.name(path): ast.parse(path.read_text("utf-8"))
        for path in repository.of_kind(".py", "redisson_py")
    }
    aliases = {module_of(name): aliases_in(tree) for name, tree in trees.items()}
    assert "TaskRef" in aliases["redisson_py._owner"]
    found = [f"{name}: {each}" for name, tree in trees.items() for each in at_run_time(tree)]
    for name, tree in trees.items():
        known = set(aliases[module_of(name)])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                theirs = aliases.get(node.module or "", set())
                known |= {each.asname or each.name for each in node.names if each.name in theirs}
        found += [
            f"{name}: {ast.unparse(node)}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in known
        ]
    assert found == []


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def aliases_in(tree: ast.Module) -> set[str]:
    """Return the names that a module gives to subscripted classes."""
    return {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_subscripted_class(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }


def is_subscripted_class(node: ast.AST | None) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    last = ast.unparse(node.value).rpartition(".")[2]
    return (last[:1].isupper() and not last.isupper()) or last == "ref"


def at_run_time(node: ast.AST, inside: bool = False) -> Iterator[str]:
    """Yield the subscripted classes in functions, outside of annotations."""
    if inside and is_subscripted_class(node):
        yield ast.unparse(node)
        return
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from at_run_time(each, inside)
