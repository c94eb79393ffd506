"""The base of all classes here, which wrap objects of the async client.

Each wraps two objects. The one that works is made by the event loop at first use, and only the
event loop touches it. The other is made at once, by a client that is never used: it checks
arguments and knows names and keys, without any event loop. So a module may make clients and locks
before a fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import redisson_py
from redisson_py._process_bound import ProcessBound
from redisson_py.sync import _calling
from redisson_py.sync._calling import Call

T = TypeVar("T")
W = TypeVar("W", bound="Wrapper")
#: Returns the async object of one of our objects, and any other object unchanged.
Of = Callable[[Any], Any]

_making = threading.RLock()


def _forked() -> None:
    global _making
    # A thread of the parent may have it. No fork waits for that: it may call a name mapper.
    _making = threading.RLock()


os.register_at_fork(after_in_child=_forked)


def shape_of(each: Any) -> Any:
    """Return the object that checks arguments and knows names."""
    return each._shape if isinstance(each, Wrapper) else each


def working_of(each: Any) -> Any:
    """Return the object that works; in the event loop."""
    if not isinstance(each, Wrapper):
        return each
    if each._working is None:
        each._working = each._make(working_of)
    return each._working


class ThreadsOnly(ProcessBound):
    """Base of what is a block of `with`: it refuses `async with`, pickles and copies."""

    if not TYPE_CHECKING:

        def __aenter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is of redisson_py.sync, for threads: in an `async def` take"
                " the client from redisson_py"
            )

        # `async with` looks this up before it calls the other.
        __aexit__ = __aenter__


class Wrapper(ThreadsOnly):
    """Base of what this package has instead of a class of `redisson_py`.

    Args:
        make: Makes the object of the async client; its argument finds the objects it is made of.
    """

    def __init__(self, make: Callable[[Of], Any]) -> None:
        self._wrap(make)

    def _wrap(self, make: Callable[[Of], Any]) -> None:
        self._make = make
        self._working: Any = None
        with _making:
            self._shape: Any = make(shape_of)

    def __repr__(self) -> str:
        return repr(self._shape)

    def _call(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Have the thread's actor make a call."""
        return Call(lambda: work(working_of(self))).outcome()

    def _acquire(self, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        """As `_call`, for one that brings a lease, a list of them, or None."""
        return Call(lambda: _wrapped(work(working_of(self))), leases_of).outcome()

    def _look(self, looking: Callable[[Any], T]) -> T:
        """Have the event loop look at counters; before the first use there are none."""
        if self._working is None:
            return looking(self._shape)
        return _calling.look(lambda: looking(working_of(self)))

    def _derive(self, derive: Callable[[Any], Any]) -> Self:
        """Return another one of the same kind."""
        # Those that users make take other arguments.
        derived = type(self).__new__(type(self))
        derived._wrap(lambda of: derive(of(self)))
        return derived


class LeaseWrapper(Wrapper):
    """Base of the leases, whose async objects exist already."""

    def __init__(self, lease: redisson_py.Lease) -> None:
        self._shape = self._working = lease


#: What wraps which lease; the classes add themselves.
lease_kinds: dict[type[redisson_py.Lease], Callable[[Any], LeaseWrapper]] = {}


async def _wrapped(acquiring: Coroutine[Any, Any, Any]) -> Any:
    """Return ours for the leases that a call brings."""
    outcome = await acquiring
    if isinstance(outcome, list):
        return [wrap(lease) for lease in outcome]
    return None if outcome is None else wrap(outcome)


def wrap(lease: redisson_py.Lease) -> Any:
    """Return ours for a lease of the async client."""
    for kind in type(lease).__mro__:
        if kind in lease_kinds:
            return lease_kinds[kind](lease)
    raise TypeError(f"{lease!r} is not a lease")


def leases_of(outcome: Any) -> Iterable[redisson_py.Lease]:
    """Return the leases of the async client in what a call brought."""
    for each in outcome if isinstance(outcome, list) else [outcome]:
        yield shape_of(each)
