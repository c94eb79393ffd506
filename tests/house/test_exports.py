"""What the package exports is documented, final and known by one name."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from types import ModuleType
from typing import is_typeddict

import pytest

import redisson_py
from redisson_py import Listeners, etcd, mysql, postgres, sync, zookeeper
from redisson_py._process_bound import ProcessBound
from redisson_py.sync import etcd as sync_etcd
from redisson_py.sync import mysql as sync_mysql
from redisson_py.sync import postgres as sync_postgres
from redisson_py.sync import zookeeper as sync_zookeeper

PACKAGE = Path(redisson_py.__file__).parent
EXPORTED = {name: getattr(redisson_py, name) for name in redisson_py.__all__}
CLASSES = {name: each for name, each in EXPORTED.items() if inspect.isclass(each)}
#: What the modules of other stores export; they are imported from there.
OF_STORES = {
    name: getattr(module, name)
    for module in (etcd, mysql, postgres, zookeeper)
    for name in module.__all__
    if inspect.isclass(getattr(module, name))
}
ERRORS = {name for name, each in CLASSES.items() if issubclass(each, Exception)}

ALL = {**CLASSES, **OF_STORES}
every_class = pytest.mark.parametrize("name", ALL)
every_class_but_errors = pytest.mark.parametrize("name", sorted(ALL.keys() - ERRORS))


def test_what_is_public_is_listed() -> None:
    public = {
        name
        for name, each in vars(redisson_py).items()
        if not name.startswith("_") and not isinstance(each, ModuleType)
    }
    public.discard("annotations")
    assert public == {*redisson_py.__all__} - {"errors"}


def test_classes_are_known_by_the_name_they_are_imported_by() -> None:
    modules = {name: each.__module__ for name, each in CLASSES.items()}
    expected = {n: "redisson_py.errors" if n in ERRORS else "redisson_py" for n in CLASSES}
    assert modules == expected


@every_class
def test_classes_have_a_docstring_of_their_own(name: str) -> None:
    text = vars(ALL[name]).get("__doc__")
    assert text
    assert text.splitlines()[0].endswith(".")


@every_class_but_errors
def test_public_members_have_a_docstring(name: str) -> None:
    undocumented = [
        member
        for member, value in inspect.getmembers(ALL[name])
        if not member.startswith("_")
        and (callable(value) or isinstance(value, property))
        and not inspect.getdoc(value)
    ]
    assert not undocumented


@every_class_but_errors
def test_what_is_no_value_has_neither_pickle_nor_copy(name: str) -> None:
    each = ALL[name]
    value = dataclasses.is_dataclass(each) or is_typeddict(each) or each is Listeners
    if not value and not getattr(each, "_is_protocol", False):
        assert issubclass(each, ProcessBound)


FOR_THREADS = [
    pytest.param(each, id=f"{module.__name__}.{name}")
    for module in (sync, sync_etcd, sync_mysql, sync_postgres, sync_zookeeper)
    for name in module.__all__
    if inspect.isclass(each := getattr(module, name))
]


@pytest.mark.parametrize("each", FOR_THREADS)
def test_nor_has_what_threads_use(each: type) -> None:
    assert each.__doc__
    value = is_typeddict(each) or dataclasses.is_dataclass(each)
    if not value and not getattr(each, "_is_protocol", False):
        assert issubclass(each, ProcessBound)


@every_class_but_errors
def test_classes_are_final(name: str) -> None:
    each = ALL[name]
    # A frozen dataclass or a typed dict is a value; there is nothing in it to override.
    # A permit is a lease.
    extended = any(each in other.__mro__[1:] for other in ALL.values())
    # A protocol is there to be followed.
    extended |= getattr(each, "_is_protocol", False)
    # The class of each server that keeps it extends it.
    extended |= each is redisson_py.Once
    value = dataclasses.is_dataclass(each) or is_typeddict(each)
    assert getattr(each, "__final__", False) or value or extended


@every_class_but_errors
@pytest.mark.parametrize("method", ["__init__", "from_url", "acquire", "try_acquire", "hold"])
def test_options_are_keyword_only(name: str, method: str) -> None:
    function = getattr(ALL[name], method, None)
    if dataclasses.is_dataclass(ALL[name]) or not inspect.isroutine(function):
        return
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty and parameter.name not in {
            "n",
            "permits",
            "count",
        }:
            assert parameter.kind is parameter.KEYWORD_ONLY, parameter


def test_making_and_looking_without_redis_is_not_async() -> None:
    for name, each in ALL.items():
        for member, _ in inspect.getmembers(each, inspect.iscoroutinefunction):
            assert not member.startswith("get_"), f"{name}.{member}"
            assert member not in {"hold", "statistics", "check"}, f"{name}.{member}"
