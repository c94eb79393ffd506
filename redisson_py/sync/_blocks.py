"""`with`: each block owns what it acquired, and gives it back however it ends.

A signal handler may raise anywhere, even as the first thing inside `__exit__`, before any of our
code has run. Python then drops its reference to the block. So a block that becomes garbage gives
back what it still owns. For this the lock must not keep its blocks alive, and each `with lock:`
needs an object of its own: `with` looks up `__enter__` and `__exit__` one right after the other
(from Python 3.14 on, `__exit__` first), before it calls either, and both look-ups get the two
methods of one new block.

If `lock.__enter__()` is called by hand, the lock remembers the block, with its thread.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from redisson_py import NotHeldError
from redisson_py.sync._calling import Call
from redisson_py.sync._decorating import decorate
from redisson_py.sync._wrapping import ThreadsOnly, Wrapper, leases_of, working_of, wrap

P = ParamSpec("P")
R = TypeVar("R")
L_co = TypeVar("L_co", covariant=True)


class HoldBlock(ThreadsOnly, Generic[L_co]):
    """A block with its own options. It can be entered again after it has ended.

    Args:
        source: The lock or semaphore.
        hold: Makes the block of the async client from that of the lock or semaphore.
    """

    def __init__(self, source: Wrapper, hold: Callable[[Any], Any]) -> None:
        self._source = source
        self._hold = hold
        self._guard: _Guard | None = None
        self._block: Any = None

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with such a block around every call.

        The name is formatted with the arguments of the call, as for `@lock`.

        Raises:
            TypeError: `func` is not a plain function.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        return decorate(self._source, func, lambda filled: HoldBlock(filled, self._hold))

    @property
    def is_entered(self) -> bool:
        """Whether it was entered and not left."""
        return self._block is not None

    def __enter__(self) -> L_co:
        if self._guard is not None:
            raise RuntimeError("this block is in use; call hold() again for another one")
        source, hold, blocks = self._source, self._hold, list[Any]()

        async def enter() -> Any:
            # Not a method: the event loop must not keep this object.
            block = hold(working_of(source))
            lease = wrap(await block.__aenter__())
            blocks.append(block)
            return lease

        guard = self._guard = _Guard(self, Call(enter, leases_of))
        try:
            lease: L_co = guard.entry.outcome()
            self._block = blocks[0]
        except BaseException:
            guard.entry.abandon()
            self._left(guard)
            raise
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, guard = self._block, self._guard
        if block is None or guard is None:
            raise NotHeldError("this block was not entered, or has already ended")
        try:
            Call(lambda: block.__aexit__(kind, error, trace)).outcome()
        except BaseException:
            # If the release was interrupted before it began, the hold still has to be given back.
            guard.entry.abandon()
            self._left(guard)
            raise
        self._left(guard)

    def _left(self, guard: _Guard) -> None:
        guard.disarm()
        self._guard = self._block = None


class _Guard:
    """Gives back what a block acquired that became garbage before it was left.

    Not `__del__`: every block would run that, and Python ignores what a signal handler raises in
    it, which may be Ctrl-C.

    Attributes:
        entry: The call that acquired, or acquires.
    """

    __slots__ = ("_block", "entry")

    def __init__(self, block: HoldBlock[Any], entry: Call[Any]) -> None:
        self.entry = entry
        self._block: weakref.ref[HoldBlock[Any]] | None = weakref.ref(block, self._fire)
        _guards.add(self)

    def disarm(self) -> None:
        """The block was left."""
        self._block = None
        _guards.discard(self)

    def _fire(self, _: object) -> None:
        self.disarm()
        self.entry.abandon()


#: The guards of entered blocks. They are kept here because a weak reference that is itself
#: collected calls nothing.
_guards: set[_Guard] = set()


#: Which of the two `with` looks up first.
_FIRST = "__enter__" if sys.version_info < (3, 14) else "__exit__"


class Half:
    """`__enter__` or `__exit__` of what can be held: see the docstring of the module."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, source: Any, owner: type | None = None) -> Callable[..., Any]:
        name = self._name
        if source is None:
            # As `ExitStack` looks them up.
            return _enter_by_hand if name == "__enter__" else _exit_by_hand
        if name == _FIRST:
            _statements.newest = statement = _Statement(source)
            return statement.enter if name == "__enter__" else statement.exit
        newest, _statements.newest = _statements.newest, None
        if newest is not None and newest.source is source:
            newest.paired = True
            return newest.enter if name == "__enter__" else newest.exit
        return functools.partial(_enter_by_hand if name == "__enter__" else _exit_by_hand, source)


class _Statement:
    """One `with lock:`; alive for as long as the statement is.

    Attributes:
        source: What is held.
        paired: Both methods were looked up one right after the other, as `with` does.
    """

    __slots__ = ("_block", "paired", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.paired = False
        self._block: HoldBlock[Any] = source.hold()

    def enter(self) -> Any:
        if not self.paired:
            # Called by hand, perhaps in another thread than looked it up.
            self._forget()
            return _enter_by_hand(self.source)
        return self._block.__enter__()

    def exit(self, *error: Any) -> None:
        if self._block.is_entered:
            self._block.__exit__(*error)
        else:
            # Its entry was called by hand, before or after this was looked up.
            self._forget()
            _exit_by_hand(self.source, *error)

    def _forget(self) -> None:
        if _statements.newest is self:
            _statements.newest = None


class _Statements(threading.local):
    """The statement of this thread of which only the first method was looked up."""

    newest: _Statement | None = None


_statements = _Statements()


class Holdable(Wrapper):
    """Base of what a block can hold."""

    def _wrap(self, make: Callable[[Any], Any]) -> None:
        super()._wrap(make)
        #: The blocks that were entered by hand, with their threads.
        self._by_hand: list[tuple[threading.Thread, HoldBlock[Any]]] = []


def _enter_by_hand(source: Any) -> Any:
    block = source.hold()
    lease = block.__enter__()
    source._by_hand.append((threading.current_thread(), block))
    return lease


def _exit_by_hand(source: Any, *error: Any) -> None:
    entered: list[tuple[threading.Thread, HoldBlock[Any]]] = source._by_hand
    own = [each for each in entered if each[0] is threading.current_thread()]
    if not own and len(entered) > 1:
        raise RuntimeError(
            f"other threads entered {source!r} {len(entered)} times, so __exit__ cannot know which"
            " acquisition to release: use `with lock.hold()`, which makes an object for each"
        )
    if not entered:
        raise NotHeldError(f"__exit__ of {source!r} was called without __enter__")
    leaving = (own or entered)[-1]
    entered.remove(leaving)
    leaving[1].__exit__(*error)
