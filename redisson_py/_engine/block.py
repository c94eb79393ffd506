"""`async with`: each block owns what it acquired, whichever task leaves it.

One lock object serves any number of tasks, so the object itself cannot tell which acquisition a
`__aexit__` is for, and neither can the task: an async generator may be closed by another task
than the one that iterated over it. But `async with` looks up both methods on the same object, one
right after the other, before it calls either (so does `AsyncExitStack`, on the class). So they
are descriptors: the two look-ups of one statement return the two halves of one `Block`.

Code that calls both by hand looks them up at different times. Such a block is remembered with its
task, which leaves it, or another one if it is the only such block. If unclear: `RuntimeError`.

A loss cancels the task that entered the block by `task.cancel`, the way `asyncio.timeout` does.
An anyio scope would cost a third of an uncontended pair (2.9 of 9 microseconds), and it does not
cancel a task whose awaited future is done until after the task's next step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, final

from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.decorating import Decorated, P, R, decorate
from redisson_py._loop import (
    Cancelled,
    Future,
    Task,
    current_task,
    no_loop,
    running_loop,
    task_or_none,
)
from redisson_py.errors import NotHeldError, RedissonError, ReleaseFailedError

if TYPE_CHECKING:
    from redisson_py._engine.hold import Lease

log = logging.getLogger("redisson_py")

L_co = TypeVar("L_co", bound="Lease", covariant=True)
S_co = TypeVar("S_co", bound="Decorated", covariant=True)


class Acquired(Protocol):
    """Acquires for a block, in one round trip if possible."""

    def begin(self, loop: object, task: Task) -> tuple[Any, Future[Any]] | None:
        """Begin the acquisition of a task that may wait; return it and the future to await.

        `first_lease` must follow with the result, or `abandon`. Return None if one round trip is
        not enough: then `acquire` must do everything.
        """

    def first_lease(self, begun: Any, task: Task, reply: object) -> Lease | None:
        """Return the lease that was acquired; None if `acquire` must go on."""

    def abandon(self, begun: Any) -> None:
        """Undo an acquisition that was begun, because its task was cancelled."""


class BlockSource(Protocol):
    """The lock or semaphore that a block acquires.

    Attributes:
        _half: The block of which one half was looked up and the other is expected next.
        _by_hand: The blocks that were entered by hand and not left.
    """

    _half: Block | None
    _by_hand: tuple[Block, ...]

    @property
    def _ownership(self) -> Acquired: ...
    def _acquire_for_block(self, task: Task, begun: Any) -> Awaitable[Lease]: ...
    def _acquired_since(self, lease: Lease, task: Task | None) -> Lease | None:
        """Return the newest acquisition of a task since `lease`, outside any block."""
        ...


async def acquire(source: BlockSource, block: Block | None = None) -> Lease:
    """Acquire for the current task, without a timeout; a block gets the lease."""
    try:
        loop = running_loop()
    except RuntimeError:
        raise no_loop() from None
    task = task_or_none(loop) or current_task()
    ownership, begun, lease = source._ownership, None, None
    if (beginning := ownership.begin(loop, task)) is not None:
        begun, future = beginning
        try:
            lease = ownership.first_lease(begun, task, await future)
        except RedissonError:
            # `_acquire_for_block` awaits the future again and handles the error.
            pass
        except BaseException:
            ownership.abandon(begun)
            raise
    if lease is None:
        lease = await source._acquire_for_block(task, begun)
    if block is not None:
        # As `Block.begin`, without the cost of a call.
        block.task = task
        block._cancelling = task.cancelling()
        block.lease = lease
        lease._block = block
    return lease


class Block:
    """One `async with`, from its entry to its exit.

    Attributes:
        lease: Its lease, from its entry to its exit.
        task: The task that entered it.
        half: The name of the method that was looked up first, until the other is looked up.
        other: The block that was entered, if only the exit of this one is used.
    """

    __slots__ = ("_cancelled", "_cancelling", "_source", "half", "lease", "other", "task")

    def __init__(self, source: BlockSource | None, half: str = "") -> None:
        self._source = source
        self._cancelling = 0
        self._cancelled = False
        self.half = half
        self.lease: Lease | None = None
        self.task: Task | None = None
        self.other: Block | None = None

    @property
    def is_of_source(self) -> bool:
        """Whether it acquired its lease itself, from a lock or a semaphore."""
        return self._source is not None

    def enter(self) -> Coroutine[Any, Any, Lease]:
        """Acquire; `__aenter__` of the block."""
        source = self._source
        assert source is not None
        if self.half or source._half is not None:
            return self._enter_by_hand(source)
        return acquire(source, self)

    async def _enter_by_hand(self, source: BlockSource) -> Lease:
        """Acquire, where a half of this block or of another one was looked up alone."""
        half = source._half
        if self.half == "__aenter__":
            # Its exit was not looked up right after it, so it was called by hand.
            source._by_hand = (*source._by_hand, self)
            if half is self:
                source._half = None
        elif half is not None and half.half == "__aexit__":
            # The exit of this statement was paired with the wrong entry.
            source._half = None
            half.other = self
        try:
            return await acquire(source, self)
        except BaseException:
            left_by_hand(source, self)
            raise

    async def exit(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give back what was acquired; `__aexit__` of the block."""
        block = self.other or self
        source = block._source
        if block.lease is None:
            assert source is not None
            source._half = None
            block = entered_by_hand(source)
        if source is not None and source._by_hand:
            left_by_hand(source, block)
        lease, block.lease = block.lease, None
        assert lease is not None
        cancelled_by_us = block._cancelled and block._uncancel(error)
        failure: RedissonError | None = lease._loss() if cancelled_by_us else None
        try:
            if not lease._spent:
                begun = lease._hold.ownership.begin_release(lease)
                if begun is not None:
                    await begun.wait()
            elif source is not None:
                # Released inside the block. As with asyncio.Lock, its end releases what the task
                # has acquired since.
                newer = source._acquired_since(lease, block.task)
                if newer is not None:
                    await newer.release()
        except ReleaseFailedError as problem:
            if lease._hold.ownership.on_release_error == "raise":
                failure = problem
            else:
                # The work was protected until its end; only the answer to the release is missing.
                log.warning("%s", problem)
        except RedissonError as problem:
            failure = problem
        finally:
            lease._block = None
        if failure is None:
            return
        if error is None or cancelled_by_us:
            raise failure from None
        # The body's error is raised; ours becomes a note on it.
        error.add_note(f"{type(failure).__name__}: {failure}")

    def begin(self, lease: Lease, task: Task) -> None:
        """Give this block a lease; a loss of the lease cancels `task`."""
        self.task = task
        self._cancelling = task.cancelling()
        self.lease = lease
        lease._block = self

    def cancel(self, reason: str) -> None:
        """Cancel the body once, unless its own task calls this or the block was left."""
        task = self.task
        if self.lease is not None and not self._cancelled and task is not task_or_none():
            assert task is not None
            self._cancelled = True
            task.cancel(reason)

    def _uncancel(self, error: BaseException | None) -> bool:
        """Take our cancellation back; return whether `error` is ours and must be replaced."""
        task = self.task
        assert task is not None
        if task.done():
            return False
        ours = task.uncancel() <= self._cancelling
        return ours and task is task_or_none() and isinstance(error, Cancelled)


def left_by_hand(source: BlockSource, left: Block) -> None:
    """Forget a block that was left, if it was entered by hand."""
    source._by_hand = tuple(block for block in source._by_hand if block is not left)


def entered_by_hand(source: BlockSource) -> Block:
    """Return the block that an `__aexit__` called by hand is for.

    Raises:
        NotHeldError: There is none.
        RuntimeError: There are several, and it is unclear which is meant.
    """
    blocks, task = source._by_hand, current_task()
    for block in reversed(blocks):
        if block.lease is not None and block.task is task:
            return block
    entered = [block for block in blocks if block.lease is not None]
    if len(entered) == 1:
        return entered[0]
    if not entered:
        raise NotHeldError(f"__aexit__ of {source!r} was called without __aenter__")
    raise RuntimeError(
        f"other tasks entered {source!r} {len(entered)} times, so __aexit__ cannot know which"
        " acquisition to release: use `async with lock.hold()`, which makes an object for each"
    )


@final
class HoldBlock(AsyncOnly, Generic[S_co, L_co]):
    """A block with its own options. It can be entered again after it has ended.

    Args:
        source: The lock or semaphore.
        acquire: Acquires from it with the options.
    """

    def __init__(self, source: S_co, acquire: Callable[[S_co], Awaitable[L_co]]) -> None:
        self._source = source
        self._acquire = acquire
        self._block: Block | None = None

    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with such a block around every call.

        The name is formatted with the arguments of the call: see `LockLike.__call__`.

        Raises:
            TypeError: `func` is not an `async def`.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        source = self._source
        return decorate(
            source._names, func, lambda fill: HoldBlock(source._filled(fill), self._acquire)
        )

    async def __aenter__(self) -> L_co:
        if self._block is not None:
            raise RuntimeError("this block is in use; call hold() again for another one")
        self._block = block = Block(cast("BlockSource", self._source))
        try:
            lease = await self._acquire(self._source)
            block.begin(lease, current_task())
        except BaseException:
            self._block = None
            raise
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is None:
            raise NotHeldError("this block was not entered, or has already ended")
        await block.exit(kind, error, trace)


class BlockHalf:
    """`__aenter__` or `__aexit__`: the look-up of one is paired with that of the other."""

    __slots__ = ("_name", "_other")

    def __init__(self, other: str) -> None:
        self._other = other
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, source: Any, owner: type | None = None) -> Callable[..., Any]:
        if source is None:
            return self._on_class(owner)
        block: Block | None = source._half
        if block is not None and block.half == self._other:
            source._half = None
            block.half = ""
        else:
            block = source._half = Block(source, self._name)
        return block.enter if self._name == "__aenter__" else block.exit

    def _on_class(self, owner: type | None) -> Callable[..., Any]:
        """Return a half that gets its object when it is called, as by `AsyncExitStack`."""
        pair = _pairs.pair
        if self._name == "__aenter__":
            pair = _pairs.pair = _Pair(owner)
        elif pair is None or pair.owner is not owner:
            # `push_async_exit` looks up the exit alone.
            pair = _Pair(owner)
        else:
            _pairs.pair = None
        return pair.enter if self._name == "__aenter__" else pair.exit


class _OnClasses(threading.local):
    """Per thread, the pair of which only `__aenter__` was looked up on a class so far."""

    pair: _Pair | None = None


_pairs = _OnClasses()


class _Pair:
    """Both halves of a block, looked up on the class."""

    def __init__(self, owner: type | None) -> None:
        self.owner = owner
        self._block: Block | None = None

    async def enter(self, source: BlockSource) -> Lease:
        if _pairs.pair is self:
            # The other half was not looked up: called by hand.
            _pairs.pair = None
            source._half = self._block = Block(source, "__aenter__")
        else:
            self._block = Block(source)
        return await self._block.enter()

    async def exit(
        self,
        source: BlockSource,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block = self._block or Block(source)
        await block.exit(kind, error, trace)
