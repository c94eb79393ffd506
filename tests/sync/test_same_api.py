"""The classes for threads are those of the async client: none is missing, none differs."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from typing import Any

import pytest

import redisson_py
from redisson_py import sync
from tests.fixtures.redis_server import unavailable
from tests.sync import generate
from tests.sync.generate import SYNC
from tests.sync.layout import FILES

#: What is the same for both, and so is not here: values, events, errors.
SHARED = {
    name
    for name in redisson_py.__all__
    if name.endswith(("Error", "Event", "Snapshot", "Statistics"))
    or name in ("errors", "Leader", "Listener", "Listeners")
    or name in ("Admission", "RateLimit")
    # There are no other stores for threads.
    or name in ("LockOf", "Locks")
}
CLASSES = sorted({*redisson_py.__all__} - SHARED)
#: What differs on purpose: what it is called here, or nothing if its arguments differ.
NAMES = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
DIFFERENT = {
    ("Lease", "wait_lost"),
    ("FencedLease", "wait_lost"),
    ("OnceLease", "wait_lost"),
    ("Leadership", "wait_lost"),
    ("Permit", "wait_lost"),
}


def methods(name: str) -> list[str]:
    members: list[str] = [
        each
        for each in dir(getattr(redisson_py, name))
        if not each.startswith("_") or each in ("__call__", "__aenter__", "__aexit__")
    ]
    own = getattr(redisson_py, name)
    return [each for each in members if each != "__call__" or "__call__" in _defined(own)]


def _defined(kind: type) -> set[str]:
    return {each for base in kind.__mro__[:-1] for each in vars(base)}


MEMBERS = [(name, each) for name in CLASSES if name != "RedissonOptions" for each in methods(name)]


def test_no_public_class_is_missing() -> None:
    assert {*sync.__all__} - {"HoldBlock"} == {*CLASSES}


@pytest.mark.parametrize(("name", "member"), MEMBERS, ids=[f"{n}.{m}" for n, m in MEMBERS])
def test_members_are_those_of_the_async_class(name: str, member: str) -> None:
    theirs = inspect.getattr_static(getattr(redisson_py, name), member)
    ours = inspect.getattr_static(getattr(sync, name), NAMES.get(member, member), None)
    assert ours is not None, f"redisson_py.sync.{name} has no {member}: run `make sync`"
    if member.startswith("__a"):
        return
    assert isinstance(ours, property) == isinstance(theirs, property)
    documented = inspect.getdoc(getattr(sync.__dict__[name], NAMES.get(member, member)))
    assert documented or isinstance(theirs, str)
    if inspect.isroutine(theirs) and not {(name, member)} & (DIFFERENT | {(name, "__call__")}):
        assert _parameters(ours) == _parameters(theirs)
    assert not inspect.iscoroutinefunction(ours)


def _parameters(function: Any) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(getattr(function, "__func__", function)).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


def test_the_options_are_those_of_the_async_client() -> None:
    ours = {**sync.RedissonOptions.__annotations__}
    theirs = {**redisson_py.RedissonOptions.__annotations__}
    del ours["on_lost"], theirs["on_lost"]
    assert {name: each.__forward_arg__ for name, each in ours.items()} == {
        name: each.__forward_arg__ for name, each in theirs.items()
    }


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """What the generator writes now."""
    if find_spec("ruff") is None:
        unavailable("ruff is not installed, which formats what the generator writes")
    return generate.generate()


@pytest.mark.parametrize("name", FILES)
def test_what_is_committed_is_what_the_generator_writes(
    name: str, generated: dict[str, str]
) -> None:
    committed = (SYNC / f"{name}.py").read_text("utf-8")
    assert committed == generated[name], "run `make sync`"


def test_each_sentence_of_the_wording_is_of_use(generated: dict[str, str]) -> None:
    from tests.sync import wording

    assert not {*wording.SENTENCES} - wording.found


def test_words_of_asyncio_are_refused() -> None:
    from tests.sync.wording import in_words_of_threads

    with pytest.raises(ValueError, match="event loop"):
        in_words_of_threads("The body blocks the event loop.", ("Lease", "check"))
    assert in_words_of_threads("A cancelled task.", ("Lease", "check")) == "An interrupted thread."


@pytest.mark.parametrize("name", sync.__all__)
def test_classes_are_known_by_the_name_they_are_imported_by(name: str) -> None:
    each = getattr(sync, name)
    assert each.__module__ == "redisson_py.sync"
    assert re.match(r".+\.$", (each.__doc__ or "").splitlines()[0])
