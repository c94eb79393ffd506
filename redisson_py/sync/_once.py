"""Once: something is carried out once, and all get its result.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, final

from redisson_py import OnceLease as AsyncOnceLease
from redisson_py import OnceSnapshot
from redisson_py._arguments import explained
from redisson_py._time import Duration
from redisson_py.sync._guarding import complete, entered
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._wrapping import lease_kinds


@final
class OnceLease(FencedLease):
    """What `with` of a `Once` gives: it runs (`done` is False), or is done already.

    While it runs it is the lease of a lock: it is renewed, and `token` is greater than that of
    every earlier run. Where it is done, nothing is held and nothing can be lost; `token` is
    that of the run that did it.
    """

    @property
    def done(self) -> bool:
        """Whether it is done: before this block, or by `complete` in it. No I/O."""
        value: bool = self._shape.done
        return value

    @property
    def result(self) -> str | bytes:
        """The result, as it was given to `complete`: bytes or text. No I/O.

        Raises:
            RuntimeError: It is not done.
        """
        value: str | bytes = self._shape.result
        return value

    @explained
    def complete(self, result: str | bytes = b"", *, connection: Any = None) -> None:
        """Record that it is done, with its result, and let all that wait go on. Once in a block.

        One atomic step with the check that this block still holds the lock. After it the lock is
        released: what follows in the block is not protected, and needs no protection.

        If it is interrupted, it is carried out all the same. If it gets no answer, it may have been
        carried out: call it again with the same result, or leave the block; then the next that
        enters finds it done or runs it. A request that arrives late changes nothing.

        Args:
            result: Bytes or text, at most 1 MiB of it. Default: b""
            connection: In PostgreSQL a connection of psycopg or psycopg2, Django's
                `django.db.connection`, or SQLAlchemy's `session.connection().connection`, inside a
                transaction, to the database of the locks: the record is a row of that transaction,
                so it is committed with your rows or not at all, and nobody else runs it before the
                transaction has ended. The lock is held until the end of the block; after a rollback
                you may complete it again. Errors of its driver are yours, as the transaction is.
                Default: None, in a step of its own

        Raises:
            LeaseLostError: The lock was lost. Nothing is recorded, but by an earlier call without
                an answer: roll a transaction back.
            NotHeldError: It is done already, also if an earlier call, which was interrupted or got
                no answer, has recorded another result: `result` is that one. Or the block was left.
            ConnectionLostError: The server did not answer.
            BackendError: It refused: no permission; or the connection does not see the tables of
                the locks. The block still runs.
            ClientClosedError: The client was closed.
            TypeError: The result is neither bytes nor str, it is no such connection, or the client
                is one of Redis.
            ValueError: It is longer than 1 MiB, or no valid text. Nothing was sent.
            RuntimeError: The connection is not inside a transaction.
        """
        complete(self, result, connection)

    @explained
    def extend(self, lease_time: Duration) -> None:
        """Set the lease to end `lease_time` seconds from now, as of any lease.

        Raises:
            NotHeldError: It is done, or was released.
        """
        self._call(lambda own: own.extend(lease_time))


class Once(LockOf[OnceLease]):
    """Carries something out once: the first that asks runs it, all others get its result.

    A block is entered by the one that runs it, whose `once.done` is False and which calls
    `once.complete(result)`, or after it is done: then `once.done` is True, and `once.result` is
    there. `run(func)` is such a block around a function: replicas of a service that start later
    pass `get_once("migrate").run(migrate)` at once. While somebody runs it, others wait;
    `hold(timeout=0)` turns them away with `AcquireTimeoutError`. A block that is left without
    `complete` leaves the name free: the next one that asks runs it.

    Promised: at any instant at most one thread runs it, as far as locks can promise that (see
    `RLock`), and none once it is done. It is recorded as done at most once within `keep`: to
    record it is one step of the server, with the check that who asks for it still runs it. One
    that was paused past its lease is refused with `LeaseLostError`. If a process dies while it
    runs it, the next runs it within one `lease_time` of the client. All that wait hear that it
    is done.

    Not promised: that the effect happens once. A run may have paid and then died before
    `complete`, or lost its lease and gone on. Give its idempotency key to whom you pay, have
    the protected resource check `once.token`, or in PostgreSQL write in the transaction in
    which you call `complete(result, connection=conn)`. Not promised either: what is recorded
    after a failover that lost the write, after an eviction or FLUSHALL; an order among those
    that wait.

    Cost: if it is not done, three round trips: to enter, to complete, to release. One if it is
    done. Each thread that waits asks once when it is done, and never polls; each gets the
    result over the connection of its client, so keep it small where many wait.

    Interruption: an interrupted `with` holds nothing; an interrupted `complete` is carried out.
    Times are in seconds, and errors those of `acquire` and `release` of a lock. The current
    thread runs it; if it enters the same name again, that is a `RuntimeError`. It cannot be a
    member of a composite, nor a decorator.

    A lock of the same name has nothing to do with it.

    Source: idempotency keys with a lock and a recorded response, as in Stripe's API and
    draft-ietf-httpapi-idempotency-key-header; the lock with a fencing token is `FencedLock`.
    """

    @property
    def done(self) -> bool:
        """Whether it was done when the current thread entered it, or is since. No I/O.

        `with ... as once` gives an object for each block; this is for code that has none.

        Raises:
            NotHeldError: The current thread has not entered it with this object.
        """
        return self._call(entered).done

    @property
    def result(self) -> str | bytes:
        """The result, as the current thread knows it. No I/O.

        Raises:
            RuntimeError: It is not done.
            NotHeldError: The current thread has not entered it with this object.
        """
        return self._call(entered).result

    @explained
    def complete(self, result: str | bytes = b"", *, connection: Any = None) -> None:
        """Complete what the current thread runs; see `OnceLease.complete`.

        Raises:
            NotHeldError: The current thread has not entered it with this object.
        """
        complete(self, result, connection)

    @explained
    def run(
        self,
        func: Callable[..., str | bytes | Coroutine[Any, Any, str | bytes | None] | None],
        *args: Any,
    ) -> str | bytes:
        """Call `func(*args)` unless it is done; return its result, of this call or of the first.

        What `func` returns is the result; None counts as b"". If it raises, nothing is recorded,
        and the next one that asks runs it. Waits without end for who runs it now, or for the
        client's `acquire_timeout`; `func` runs in this thread.

        Args:
            func: A plain function.
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
        with self.hold() as once:
            if not once.done:
                value: Any = func(*args)
                once.complete(b"" if value is None else value)
            found: str | bytes = once.result
        return found

    def forget(self) -> bool:
        """Forget that it is done: the next that asks runs it again. Return whether it was done.

        Who runs it now is not touched, and may complete it. An interrupted call is carried out.

        Raises:
            ConnectionLostError: The server did not answer; it may be forgotten.
            BackendError: The server refused: no permission.
            ClientClosedError: The client was closed.
        """
        value: bool = self._call(lambda own: own.forget())
        return value

    def inspect(self) -> OnceSnapshot:
        """Return who runs it, and whether it is done, for people. Decide nothing from it."""
        value: OnceSnapshot = self._call(lambda own: own.inspect())
        return value


lease_kinds.update({AsyncOnceLease: OnceLease})
