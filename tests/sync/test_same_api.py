"""The classes for threads are those of the async client: none is missing, none differs."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from types import ModuleType
from typing import Any, is_typeddict

import pytest

import redisson_py
from redisson_py import etcd, mysql, postgres, sync, zookeeper
from redisson_py.sync import etcd as sync_etcd
from redisson_py.sync import mysql as sync_mysql
from redisson_py.sync import postgres as sync_postgres
from redisson_py.sync import zookeeper as sync_zookeeper
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
}
CLASSES = sorted({*redisson_py.__all__} - SHARED)
#: The modules of other stores, async and for threads, and what is the same for both.
STORES = (
    (postgres, sync_postgres),
    (mysql, sync_mysql),
    (etcd, sync_etcd),
    (zookeeper, sync_zookeeper),
)
SHARED_BY_STORES = {
    *("Leader", "OnceSnapshot", "ReadWriteSnapshot", "SemaphoreSnapshot"),
    *("once_schema_sql", "schema_sql"),
}
#: What a block is here, and an asynchronous generator.
ONLY_HERE = {"HoldBlock", "Observation"}
#: Each class, async and for threads.
PAIRS = [(getattr(redisson_py, name), getattr(sync, name)) for name in CLASSES] + [
    (getattr(theirs, name), getattr(ours, name))
    for theirs, ours in STORES
    for name in theirs.__all__
    if name not in SHARED_BY_STORES
]
#: What differs on purpose: what it is called here, or nothing if its arguments differ.
NAMES = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
DIFFERENT = {"wait_lost", "__call__"}


def methods(own: type) -> list[str]:
    members: list[str] = [
        each
        for each in dir(own)
        if not each.startswith("_") or each in ("__call__", "__aenter__", "__aexit__")
    ]
    return [each for each in members if each != "__call__" or "__call__" in _defined(own)]


def _defined(kind: type) -> set[str]:
    return {each for base in kind.__mro__[:-1] for each in vars(base)}


MEMBERS = [
    pytest.param(theirs, ours, each, id=f"{theirs.__module__}.{theirs.__name__}.{each}")
    for theirs, ours in PAIRS
    if not is_typeddict(theirs)
    for each in methods(theirs)
]


def test_no_public_class_is_missing() -> None:
    assert {*sync.__all__} - ONLY_HERE == {*CLASSES}


@pytest.mark.parametrize(("theirs", "ours"), STORES, ids=lambda module: module.__name__)
def test_a_store_exports_the_same(theirs: ModuleType, ours: ModuleType) -> None:
    assert {*ours.__all__} == {*theirs.__all__}
    for name in {*theirs.__all__} & SHARED_BY_STORES:
        assert getattr(ours, name) is getattr(theirs, name)


@pytest.mark.parametrize(("theirs", "ours", "member"), MEMBERS)
def test_members_are_those_of_the_async_class(theirs: type, ours: type, member: str) -> None:
    assert ours is not theirs
    called = NAMES.get(member, member)
    their, our = inspect.getattr_static(theirs, member), inspect.getattr_static(ours, called, None)
    assert our is not None, f"{ours} has no {called}: run `make sync`"
    if member.startswith("__a"):
        return
    assert isinstance(our, property) == isinstance(their, property)
    documented = inspect.getdoc(getattr(ours, called))
    assert documented or isinstance(their, str)
    if inspect.isroutine(their) and member not in DIFFERENT:
        assert _parameters(our) == _parameters(their)
    assert not inspect.iscoroutinefunction(our)
    assert not inspect.isasyncgenfunction(our)


def _parameters(function: Any) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(getattr(function, "__func__", function)).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize(
    ("our", "their"),
    [
        (sync.RedissonOptions, redisson_py.RedissonOptions),
        (sync_postgres.StoreOptions, postgres.StoreOptions),
    ],
    ids=["Redis", "other stores"],
)
def test_the_options_are_those_of_the_async_client(our: type, their: type) -> None:
    ours, theirs = {**our.__annotations__}, {**their.__annotations__}
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
