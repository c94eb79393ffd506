"""Once: of several requests for one thing the first is carried out, all others get its result."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Never, Protocol, cast, final

from redisson_py._answers import Settled
from redisson_py._arguments import explained
from redisson_py._engine.hold import FencedLease, Hold, Lease
from redisson_py._engine.ownership import Begun
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._loop import Task, current_task
from redisson_py._time import Duration
from redisson_py.errors import LeaseLostError, NotHeldError, RedissonError
from redisson_py.locks.lock_of import LockOf

#: A statement in SQL, with `$1` for the first of its arguments.
Statement = tuple[str, tuple[object, ...]]

#: Longest result in bytes: one megabyte of 1,024 times 1,024.
LONGEST_RESULT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OnceSnapshot(LockSnapshot):
    """What is done once, on its server, a moment ago; its holder is who runs it.

    Attributes:
        done: Whether it is done.
        kept: Seconds for which the server remembers that; None if it is not done.
        token: The fencing token with which it was done; None if it is not done.
        size: The number of bytes of its result; 0 if it is not done.
    """

    done: bool
    kept: float | None
    token: int | None
    size: int


class OnceServer(Protocol):
    """What `Once` asks of a server beside the lock."""

    async def complete(
        self, hold: Hold, token: int, result: str | bytes, connection: Any
    ) -> str | bytes | None:
        """Record a result, if the hold is in force; return what is recorded, None if it was not.

        It is carried out even if its caller is cancelled. It may be asked again: what the same hold
        recorded first stays, and is returned.
        """
        ...

    def recording(self, hold: Hold, token: int, result: str | bytes) -> Sequence[Statement]:
        """Return what records a result in a transaction of the user's, on any connection to it.

        Each statement brings a row, or the hold is not in force. The first one changes nothing:
        after it the connection is in a transaction, or in none. `recorded_in` reads the last row.

        Raises:
            TypeError: This server has no part in transactions of users.
        """
        ...


class OnceOwnership(TaskOwnership):
    """What one client's tasks run.

    Attributes:
        server: Records that it is done.
    """

    __slots__ = ("server",)

    server: OnceServer

    def begin(self, loop: object, task: Task) -> None:
        """Begin nothing: the object notes what its task has entered, in `acquire`."""

    def pass_on(self, hold: Hold) -> bool:
        """Pass nothing on: it may be done, and then the next task must not run it."""
        return False

    def settled(self, answer: Settled, task: Task) -> Lease:
        """Return what a block gets that was entered after it was done."""
        lease = super().settled(answer, task)
        assert isinstance(lease, OnceLease)
        lease._result = answer.value
        return lease


@final
class OnceLease(FencedLease):
    """What `async with` of a `Once` gives: it runs (`done` is False), or is done already.

    While it runs it is the lease of a lock: it is renewed, its loss cancels the block, and `token`
    is greater than that of every earlier run. Where it is done, nothing is held and nothing can be
    lost; `token` is that of the run that did it.
    """

    __slots__ = ("_in_transaction", "_result")

    def __init__(
        self, hold: Hold, limit: float | None, token: int | None, granted_at: float
    ) -> None:
        super().__init__(hold, limit, token, granted_at)
        self._result: str | bytes | None = None
        #: It was completed in a transaction of the user's, which may be rolled back.
        self._in_transaction = False

    def __repr__(self) -> str:
        held = super().__repr__()
        return f"<{type(self).__name__} of {self._hold.ownership!r}: done>" if self.done else held

    @property
    def done(self) -> bool:
        """Whether it is done: before this block, or by `complete` in it. No I/O."""
        return self._result is not None

    @property
    def result(self) -> str | bytes:
        """The result, as it was given to `complete`: bytes or text. No I/O.

        Raises:
            RuntimeError: It is not done.
        """
        if self._result is None:
            raise RuntimeError(f"{self._hold.ownership!r} is not done, so it has no result yet")
        return self._result

    @explained
    async def complete(self, result: str | bytes = b"", *, connection: Any = None) -> None:
        """Record that it is done, with its result, and let all that wait go on. Once in a block.

        One atomic step with the check that this block still holds the lock. After it the lock is
        released: what follows in the block is not protected, and needs no protection.

        If it is cancelled, it is carried out all the same. If it gets no answer, it may have been
        carried out: call it again with the same result, or leave the block; then the next that
        enters finds it done or runs it. A request that arrives late changes nothing.

        Args:
            result: Bytes or text, at most 1 MiB of it. Default: b""
            connection: In PostgreSQL a connection of asyncpg inside a transaction, to the database
                of the locks: the record is a row of that transaction, so it is committed with your
                rows or not at all, and nobody else runs it before the transaction has ended. The
                lock is held until the end of the block; after a rollback you may complete it again.
                Errors of its driver are yours, as the transaction is. Default: None, in a step of
                its own

        Raises:
            LeaseLostError: The lock was lost. Nothing is recorded, but by an earlier call without
                an answer: roll a transaction back.
            NotHeldError: It is done already, also if an earlier call, which was cancelled or got no
                answer, has recorded another result: `result` is that one. Or the block was left.
            ConnectionLostError: The server did not answer.
            BackendError: It refused: no permission; or the connection does not see the tables of
                the locks. The block still runs.
            ClientClosedError: The client was closed.
            TypeError: The result is neither bytes nor str, it is no such connection, or the client
                is one of Redis.
            ValueError: It is longer than 1 MiB, or no valid text. Nothing was sent.
            RuntimeError: The connection is not inside a transaction.
        """
        self._check_completion(result)
        recorded = await self._server.complete(self._hold, self.token, result, connection)
        if recorded is None:
            raise self._not_recorded()
        self._recorded(recorded, in_transaction=connection is not None)
        if connection is None:
            await self._leave()
        self._check_recorded(result)

    @property
    def _server(self) -> OnceServer:
        return cast("OnceOwnership", self._hold.ownership).server

    def _check_completion(self, result: str | bytes) -> None:
        """Refuse what cannot be recorded, or not by this block; errors as for `complete`."""
        check_result(result)
        if self._result is not None and not self._in_transaction:
            raise NotHeldError(
                f"{self._hold.ownership!r} is done already: a block completes it once"
            )
        if self._spent and self._state == "released":
            raise self._not_held()
        self.check()

    def _recording(self, result: str | bytes) -> Sequence[Statement]:
        """Return what records it in a transaction, for a thread; errors as for `complete`."""
        self._check_completion(result)
        return self._server.recording(self._hold, self.token, result)

    def _check_recorded(self, result: str | bytes) -> None:
        """Refuse a result if another one is recorded."""
        if self._result != result:
            raise NotHeldError(
                f"{self._hold.ownership!r} is done already: an earlier call has recorded another"
                " result"
            )

    def _recorded(self, result: str | bytes, in_transaction: bool) -> None:
        """Note that the result is recorded, in this transaction or for good."""
        self._result = result
        self._in_transaction = in_transaction

    def _not_recorded(self) -> LeaseLostError:
        """Note that the server does not have the hold; return the error."""
        if self._state == "held":
            cast("OnceOwnership", self._hold.ownership).context.watchdog.lose(self._hold, "taken")
        return self._loss()

    async def _leave(self) -> None:
        """Release the lock. What is done stays done, whatever the answer is."""
        if self._spent:
            return
        try:
            await self.release()
        except RedissonError:
            # Nobody waits for the lock: all look at the record first.
            return

    @explained
    async def extend(self, lease_time: Duration) -> None:
        """Set the lease to end `lease_time` seconds from now, as of any lease.

        Raises:
            NotHeldError: It is done, or was released.
        """
        if self._result is not None:
            raise NotHeldError(f"{self._hold.ownership!r} is done: nothing is held")
        await super().extend(lease_time)


def recorded_in(row: Sequence[Any], result: str | bytes) -> str | bytes:
    """Return which result a server has recorded that was asked to record `result`.

    Args:
        row: Its answer: None, or another result that it had recorded, and whether that is text.
        result: The result.
    """
    other, is_text = row
    return result if other is None else result_of(other, is_text)


def result_of(data: bytes, is_text: bool) -> str | bytes:
    """Return a result as it was given; a driver may have its bytes in another form."""
    return bytes(data).decode() if is_text else bytes(data)


def check_result(result: object) -> None:
    """Refuse what cannot be recorded as a result.

    Raises:
        TypeError: It is neither bytes nor str.
        ValueError: It is longer than 1 MiB, or not valid text.
    """
    if not isinstance(result, str | bytes):
        raise TypeError(f"result must be bytes or str, not {type(result).__name__}")
    try:
        size = len(result.encode() if isinstance(result, str) else result)
    except UnicodeEncodeError as error:
        raise ValueError(f"result is not valid text: {error.reason}") from None
    if size > LONGEST_RESULT_BYTES:
        raise ValueError(f"result must be at most {LONGEST_RESULT_BYTES} bytes, not {size}")


class Once(LockOf[OnceLease]):
    """Carries something out once: the first that asks runs it, all others get its result.

    A block is entered by the one that runs it, whose `once.done` is False and which calls
    `once.complete(result)`, or after it is done: then `once.done` is True, and `once.result` is
    there. `run(func)` is such a block around a function: replicas of a service that start later
    pass `get_once("migrate").run(migrate)` at once. While somebody runs it, others wait;
    `hold(timeout=0)` turns them away with `AcquireTimeoutError`. A block that is left without
    `complete` leaves the name free: the next one that asks runs it.

    Promised: at any instant at most one task runs it, as far as locks can promise that (see
    `RLock`), and none once it is done. It is recorded as done at most once within `keep`: to record
    it is one step of the server, with the check that who asks for it still runs it. One that
    was paused past its lease is refused with `LeaseLostError`. If a process dies while it runs it,
    the next runs it within one `lease_time` of the client. All that wait hear that it is done.

    Not promised: that the effect happens once. A run may have paid and then died before `complete`,
    or lost its lease and gone on. Give its idempotency key to whom you pay, have the protected
    resource check `once.token`, or in PostgreSQL write in the transaction in which you call
    `complete(result, connection=conn)`. Not promised either: what is recorded after a failover
    that lost the write, after an eviction or FLUSHALL; an order among those that wait.

    Cost: if it is not done, three round trips: to enter, to complete, to release. One if it is
    done. Each task that waits asks once when it is done, and never polls; each gets the result over
    the connection of its client, so keep it small where many wait.

    Cancellation: a cancelled `async with` holds nothing; a cancelled `complete` is carried out.
    Times are in seconds, and errors those of `acquire` and `release` of a lock. The current task
    runs it; if it enters the same name again, that is a `RuntimeError`. It cannot be a member of
    a composite, nor a decorator.

    A lock of the same name has nothing to do with it.

    Source: idempotency keys with a lock and a recorded response, as in Stripe's API and
    draft-ietf-httpapi-idempotency-key-header; the lock with a fencing token is `FencedLock`.
    """

    #: What each task entered last with this object.
    _entered: weakref.WeakKeyDictionary[Task, OnceLease]
    _ownership: OnceOwnership  # type: ignore[mutable-override]

    def __init__(self, ownership: OnceOwnership, key: bytes) -> None:
        super().__init__(ownership, key)
        self._entered = weakref.WeakKeyDictionary()

    @property
    def done(self) -> bool:
        """Whether it was done when the current task entered it, or is since. No I/O.

        `async with ... as once` gives an object for each block; this is for code that has none.

        Raises:
            NotHeldError: The current task has not entered it with this object.
        """
        return self._of_task().done

    @property
    def result(self) -> str | bytes:
        """The result, as the current task knows it. No I/O.

        Raises:
            RuntimeError: It is not done.
            NotHeldError: The current task has not entered it with this object.
        """
        return self._of_task().result

    @explained
    async def complete(self, result: str | bytes = b"", *, connection: Any = None) -> None:
        """Complete what the current task runs; see `OnceLease.complete`.

        Raises:
            NotHeldError: The current task has not entered it with this object.
        """
        await self._of_task().complete(result, connection=connection)

    @explained
    async def run(
        self,
        func: Callable[..., str | bytes | Coroutine[Any, Any, str | bytes | None] | None],
        *args: Any,
    ) -> str | bytes:
        """Call `func(*args)` unless it is done; return its result, of this call or of the first.

        What `func` returns is the result; None counts as b"". If it raises, nothing is recorded,
        and the next one that asks runs it. Waits without end for who runs it now, or for the
        client's `acquire_timeout`; if it is cancelled, `func` is.

        Args:
            func: An async function, or another one, which must not block.
            args: What it gets.

        Raises:
            LeaseLostError: The lock was lost before the result was recorded. `func` may have had
                its effect.
            AcquireTimeoutError: Somebody else ran it for the client's `acquire_timeout`.
            ConnectionLostError: The server did not answer, before `func` or after it.
            BackendError: It refused.
            ClientClosedError: The client was closed.
            TypeError: `func` is not callable, or returned neither bytes, str nor None.
            ValueError: What it returned is longer than 1 MiB.
        """
        if not callable(func):
            raise TypeError(f"func must be callable, not {type(func).__name__}")
        async with self.hold() as once:
            if not once.done:
                value: Any = func(*args)
                if isawaitable(value):
                    value = await value
                await once.complete(b"" if value is None else value)
            return once.result

    @abstractmethod
    async def forget(self) -> bool:
        """Forget that it is done: the next that asks runs it again. Return whether it was done.

        Who runs it now is not touched, and may complete it. A cancelled call is carried out.

        Raises:
            ConnectionLostError: The server did not answer; it may be forgotten.
            BackendError: The server refused: no permission.
            ClientClosedError: The client was closed.
        """

    @abstractmethod
    async def inspect(self) -> OnceSnapshot:
        """Return who runs it, and whether it is done, for people. Decide nothing from it."""

    def _of_task(self) -> OnceLease:
        lease = self._entered.get(current_task())
        if lease is None:
            raise NotHeldError(
                f"the current task has not entered {self!r}: use what `async with ... as once` gave"
            )
        return lease

    def _note(self, lease: Lease) -> OnceLease:
        assert isinstance(lease, OnceLease)
        self._entered[current_task()] = lease
        return lease

    async def _acquire_for_block(self, task: Task, begun: Begun | None) -> OnceLease:
        return self._note(await super()._acquire_for_block(task, begun))

    async def _acquire_checked(
        self, timeout: float | None, lease_time: Duration | None, max_hold: Duration | None
    ) -> OnceLease | None:
        lease = await super()._acquire_checked(timeout, lease_time, max_hold)
        return None if lease is None else self._note(lease)

    @property
    def _names(self) -> Sequence[Never]:
        raise TypeError(
            f"{self!r} is no decorator: it would call the function although it is done. Use"
            " `await once.run(func)`"
        )
