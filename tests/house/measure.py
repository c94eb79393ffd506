"""Measures of the code's shape: `python -m tests.house.measure` prints them as a table."""

from __future__ import annotations

import ast
import asyncio
import cProfile
import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import redisson_py
from redisson_py import Redisson, RLock
from redisson_py._engine.hold import Hold, TaskHold
from redisson_py._redis.stream.wire import Wire
from redisson_py.testing import embedded_server
from tests.support import repository

PACKAGE = repository.ROOT / "redisson_py"
FIELDS = {*TaskHold.__slots__, *Hold.__slots__}
_PAIRS = 100


def rows_of(paths: list[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


# What runs.


async def _with_client(measure: Callable[[Redisson], Awaitable[None]], **options: Any) -> None:
    async with embedded_server() as url, Redisson.from_url(url, **options) as client:
        for _ in range(20):
            async with client.get_lock("k"):
                pass
        await measure(client)


def files_of_a_pair() -> list[Path]:
    """Return the files of the package in which something runs for a pair of a plain lock."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        seen.add(frame.f_code.co_filename)

    async def pair(client: Redisson) -> None:
        sys.setprofile(note)
        async with client.get_lock("k"):
            pass
        sys.setprofile(None)

    asyncio.run(_with_client(pair))
    return sorted(path for path in map(Path, seen) if path.is_relative_to(PACKAGE))


def frames_to_the_write() -> list[str]:
    """Return the frames of the package from `async with lock` to where the stream has the bytes.

    They leave at once or, with those of other tasks, at the end of the loop's turn.
    """
    frames: list[str] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        if frames or event != "call" or frame.f_code is not Wire.put.__code__:
            return
        back: FrameType | None = frame
        while back is not None:
            path = Path(back.f_code.co_filename)
            if path.is_relative_to(PACKAGE):
                frames.append(f"{path.relative_to(PACKAGE)}:{back.f_code.co_name}")
            back = back.f_back

    async def enter(client: Redisson) -> None:
        sys.setprofile(note)
        async with client.get_lock("k"):
            sys.setprofile(None)

    asyncio.run(_with_client(enter))
    return frames[::-1]


def calls_a_pair() -> float:
    """Return how many functions a pair calls, on uvloop, whose own work is not counted."""

    async def pairs(client: Redisson) -> None:
        for _ in range(_PAIRS):
            async with client.get_lock("k"):
                pass

    return _calls(pairs) / _PAIRS


def calls_a_hand_off() -> float:
    """Return how many functions a hand-off from task to task calls, on uvloop as well."""

    async def enter(lock: RLock) -> None:
        for _ in range(_PAIRS):
            async with lock:
                pass

    async def hand_offs(client: Redisson) -> None:
        lock = client.get_lock("k")
        await asyncio.gather(enter(lock), enter(lock))

    return _calls(hand_offs, turn=3600) / (2 * _PAIRS)


def _calls(measured: Callable[[Redisson], Awaitable[None]], **options: Any) -> float:
    counted: list[int] = []

    async def count(client: Redisson) -> None:
        profile = cProfile.Profile()
        profile.enable()
        await measured(client)
        profile.disable()
        counted.append(sum(entry.callcount for entry in profile.getstats()))

    if find_spec("uvloop") is None:
        return float("nan")
    import uvloop

    uvloop.run(_with_client(count, **options))
    return counted[0]


# What is written.


def deepest_public_type() -> tuple[str, int, int]:
    """Return the public type with most classes below it, how many, and how often one overrides."""

    def own_bases(each: type) -> list[type]:
        return [
            base
            for base in each.__mro__
            if base.__module__.startswith("redisson_py")
            and not getattr(base, "_is_protocol", False)
        ]

    def overrides(each: type) -> int:
        names: Counter[str] = Counter(
            name
            for base in own_bases(each)
            for name, value in vars(base).items()
            if inspect.isroutine(value) or isinstance(value, property)
        )
        return sum(count - 1 for name, count in names.items() if name != "__init__")

    types = [getattr(redisson_py, name) for name in redisson_py.__all__]
    classes = [
        each for each in types if inspect.isclass(each) and not issubclass(each, BaseException)
    ]
    deepest = max(classes, key=lambda each: (len(own_bases(each)), overrides(each)))
    return deepest.__name__, len(own_bases(deepest)), overrides(deepest)


def writers_of_holds() -> dict[str, int]:
    """Return the files in which a hold's field is set, and how often, by the names of variables.

    `hold.x = ...`, `self._hold.x = ...` and the like, for a field of `Hold`; its own file sets
    its fields on `self`.
    """
    found: Counter[str] = Counter()
    for path in repository.of_kind(".py", "redisson_py"):
        tree = ast.parse(path.read_text("utf-8"))
        own = path == PACKAGE / "_engine" / "hold.py"
        found[repository.name(path)] += sum(
            1 for owner in _set_attributes(tree) if _is_a_hold(owner) or (own and owner == "self")
        )
    return {name: count for name, count in found.most_common() if count}


def _set_attributes(tree: ast.AST) -> Iterator[str]:
    """Yield the expression before the dot, for each field of `Hold` that is set or deleted."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if name in FIELDS:
                yield ast.unparse(node.value)


def _is_a_hold(expression: str) -> bool:
    last = expression.rpartition(".")[2].lstrip("_")
    return last in ("hold", "held", "parent", "read", "write") or last.endswith("_hold")


def largest_circle() -> list[str]:
    """Return the largest circle of files that refer to each other, also for types only."""
    modules = {
        ".".join(path.relative_to(repository.ROOT).with_suffix("").parts): path
        for path in repository.of_kind(".py", "redisson_py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        used: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                used |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        graph[name] = used & modules.keys()

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            ahead += graph[name := ahead.pop()] - seen
            seen |= graph[name]
        return seen

    reach = {name: reached(name) for name in graph}
    circles = [
        sorted(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    ]
    return max(circles, key=len, default=[])


def private_accesses() -> int:
    """Return how often a private part of another object is used outside the file that has it.

    `x._y`, where `x` is not `self` or `cls` and the file sets no `_y` on `self` and defines none.
    `_replace` is no private part, but a method of named tuples.
    """
    found = 0
    for path in repository.of_kind(".py", "redisson_py"):
        if path.is_relative_to(PACKAGE / "sync"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        own = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        own |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) == "self"
        }
        found += sum(
            1
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and ast.unparse(node.value) not in ("self", "cls", "super()")
            and node.attr not in own | {"_replace"}
        )
    return found


def ignores() -> int:
    """Return how many errors of types are ignored."""
    paths = repository.of_kind(".py", "redisson_py")
    return sum(path.read_text("utf-8").count("# type: ignore") for path in paths)


def code_rows_of_the_core() -> int:
    """Return the lines of code without `_cli`, `testing` and `sync`, comments and docstrings."""
    side_rooms = ("_cli", "testing", "sync")
    rows = 0
    for path in repository.of_kind(".py", "redisson_py"):
        if path.relative_to(PACKAGE).parts[0] in side_rooms:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        texts = {
            row
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        rows += sum(
            1
            for number, row in enumerate(path.read_text("utf-8").splitlines(), 1)
            if row.strip() and not row.lstrip().startswith("#") and number not in texts
        )
    return rows


def files_by_folder() -> dict[str, int]:
    folders = Counter(
        repository.name(path.parent) for path in repository.of_kind(".py", "redisson_py")
    )
    return dict(folders.most_common())


def share_of_tests() -> float:
    return rows_of(repository.of_kind(".py", "tests")) / rows_of(
        repository.of_kind(".py", "redisson_py")
    )


def rows() -> Iterator[tuple[str, str]]:
    """Yield what is measured, and the figure."""
    touched = files_of_a_pair()
    yield (
        "lines to read to understand one lock",
        f"{rows_of(touched)} in {len(touched)} files that a pair runs through",
    )
    frames = frames_to_the_write()
    files = {frame.partition(":")[0] for frame in frames}
    yield "frames from `async with lock` to the write", f"{len(frames)}, in {len(files)} files"
    yield "function calls an uncontended pair", f"{calls_a_pair():.0f}"
    yield "function calls a hand-off inside a process", f"{calls_a_hand_off():.0f}"
    name, depth, overridden = deepest_public_type()
    yield (
        "deepest inheritance of a public type",
        f"{depth} (`{name}`), {overridden} methods overridden",
    )
    writers = writers_of_holds()
    yield (
        "files that write a hold's fields",
        f"{len(writers)}: " + ", ".join(f"{file} ({count})" for file, count in writers.items()),
    )
    circle = largest_circle()
    yield "largest circle of files", f"{len(circle)}: {', '.join(circle)}"
    yield "uses of another object's private parts outside its file", f"{private_accesses()}"
    yield "`type: ignore`", f"{ignores()}"
    yield "lines of code of the core", f"{code_rows_of_the_core()}"
    folders = files_by_folder()
    yield "files a folder", ", ".join(f"{folder} {count}" for folder, count in folders.items())
    yield "test lines to source lines", f"{share_of_tests():.1f} : 1"


def main() -> None:
    print("| | now |\n|---|---|")  # noqa: T201
    for what, figure in rows():
        print(f"| {what} | {figure} |")  # noqa: T201
    print()  # noqa: T201
    print("Frames:", *frames_to_the_write(), sep="\n  ")  # noqa: T201
    print("Files of a pair:", *map(repository.name, files_of_a_pair()), sep="\n  ")  # noqa: T201


if __name__ == "__main__":
    main()
