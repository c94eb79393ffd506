"""The tree of errors is that of the API, and each says for machines what it says for people."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator

import pytest

import redisson_py
from redisson_py import errors
from redisson_py.errors import (
    AcquireTimeoutError,
    BackendError,
    BrokenBarrierError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
    NotHeldError,
    QuorumError,
    RedissonError,
    ReleaseFailedError,
    ReplicationError,
    ScriptError,
    UnsupportedServerError,
)

BASES: dict[type[Exception], tuple[type[BaseException], ...]] = {
    RedissonError: (Exception,),
    AcquireTimeoutError: (RedissonError, TimeoutError),
    QuorumError: (AcquireTimeoutError,),
    NotHeldError: (RedissonError, RuntimeError),
    LeaseLostError: (RedissonError,),
    BrokenBarrierError: (RedissonError,),
    ReplicationError: (RedissonError,),
    ClientClosedError: (RedissonError, RuntimeError),
    BackendError: (RedissonError,),
    ConnectionLostError: (BackendError,),
    ReleaseFailedError: (ConnectionLostError,),
    ScriptError: (BackendError,),
    UnsupportedServerError: (BackendError,),
}


def test_the_module_defines_exactly_the_tree() -> None:
    assert {each for _, each in inspect.getmembers(errors, inspect.isclass)} == {*BASES}


@pytest.mark.parametrize("error", BASES, ids=lambda each: each.__name__)
def test_each_is_what_the_api_says_and_says_when(error: type[Exception]) -> None:
    assert error.__bases__ == BASES[error]
    assert getattr(redisson_py, error.__name__) is error
    assert error.__name__ in redisson_py.__all__
    assert error.__module__ == "redisson_py.errors"
    assert error.__doc__ is not None
    assert error.__doc__.startswith("Base of" if error is RedissonError else "Raised when")


def test_attributes_are_for_machines() -> None:
    quorum = QuorumError("too few", {"a": "busy"})
    lost = LeaseLostError("lock 'orders' was lost", "orders", "c:1", 1.5, "expired")
    script = ScriptError("lock.acquire v1", "OOM command not allowed", "orders")
    assert quorum.answers == {"a": "busy"}
    assert (lost.name, lost.owner, lost.held_for) == ("orders", "c:1", 1.5)
    assert lost.reason == "expired"
    assert ConnectionLostError("no answer", maybe_held=True).maybe_held
    assert not ConnectionLostError("no answer", maybe_held=False).maybe_held
    assert (script.script, script.message) == ("lock.acquire v1", "OOM command not allowed")
    assert script.key == "orders"


def _kinds(kind: type[RedissonError]) -> Iterator[type[RedissonError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def test_every_subclass_survives_pickling() -> None:
    """Whatever its constructor takes, and whatever attributes it has: also those of stores."""
    for module in pkgutil.walk_packages(redisson_py.__path__, "redisson_py."):
        if "pytest_plugin" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    kinds = {*_kinds(RedissonError)}
    assert kinds > {*BASES}
    for kind in kinds:
        error = kind.__new__(kind)
        error.args = ("a text", 7)
        vars(error).update(key="k", number=1.5)
        error.add_note("a note")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert again.args == error.args
        assert vars(again) == vars(error)
