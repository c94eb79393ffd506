"""Loses a lease on purpose, as if Redis had lost it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from redisson_py import (
        FairLock,
        FencedLock,
        Lease,
        PermitExpirableSemaphore,
        ReadLock,
        RLock,
        Semaphore,
        WriteLock,
    )
    from redisson_py._engine.context import Context
    from redisson_py._engine.hold import Hold
    from redisson_py._engine.ownership import Ownership
    from redisson_py._engine.server import Commands

    Held = (
        Lease
        | RLock
        | FairLock
        | FencedLock
        | ReadLock
        | WriteLock
        | Semaphore
        | PermitExpirableSemaphore
    )

#: Seconds between two checks whether the loss was noticed.
_LOOK_AGAIN: Final = 0.001


async def lose(held: Held) -> None:
    """Make Redis forget a lease, and return once its holder knows.

    Redis forgets only this holder: other readers and other permits stay. Waiters wake up. The
    client asks Redis at once, instead of at its next renewal, and finds the lease gone. The rest is
    as in a real loss: `lease.lost` is True, `wait_lost` returns, the body of the block is
    cancelled, and the block raises `LeaseLostError` with the reason `"taken"`.

    Of a multi lock or a red lock, it takes away as many members as a loss needs. Leases of
    re-entries are lost together, because Redis knows one holder. Called inside the block of the
    lease itself, this call is cancelled with the rest of the body. If cancelled, the lease may or
    may not be lost.

    Args:
        held: The lease, of any kind of lock or semaphore. Or, for code that keeps its leases to
            itself, the lock or semaphore: everything its client holds under that name. The client
            must belong to the running event loop.

    Raises:
        TypeError: `held` is none of these, or a multi lock or red lock: pass its lease.
        NotHeldError: The lease was released, or the client holds nothing under that name. (A lease
            that is already lost stays as it is.)
        ConnectionLostError: Redis did not answer.
        ClientClosedError: The client was closed, or belongs to another event loop.
    """
    from redisson_py import Lease, NotHeldError
    from redisson_py.composite._hold import CompositeLease
    from redisson_py.locks.lock import ServerLock
    from redisson_py.semaphores.semaphore_like import SemaphoreLike

    if isinstance(held, CompositeLease):
        for member in list(held._members):
            if held._state == member._state == "held":
                await lose(member)
    elif isinstance(held, Lease):
        if held._state == "held":
            await _take_away(held._hold)
    elif isinstance(held, ServerLock | SemaphoreLike):
        own = held._ownership
        holds = [
            hold
            for hold in own.context.watchdog.holds
            if (hold.ownership.commands.key, hold.ownership.kind) == (own.commands.key, own.kind)
        ]
        for hold in holds:
            await _take_away(hold)
        if not holds:
            raise NotHeldError(f"cannot lose {own!r}: this client does not hold it")
    else:
        raise TypeError(f"lose() needs a lease, a lock or a semaphore, not {type(held).__name__}")
    if isinstance(held, Lease) and held._state == "released":
        raise NotHeldError(f"cannot lose {held!r}: it was released")


async def _take_away(hold: Hold) -> None:
    from redisson_py._answers import RefusedError

    ownership = cast("Ownership[Commands, Context]", hold.ownership)
    ownership.context.check()
    if hold.state == "held":
        # The script of a release, but the hold here is not marked as released.
        call = ownership._send_release(hold)
        try:
            await call.future
        except RefusedError as error:
            raise call.refusal(error) from error
    while hold.state == "held":
        # Again, because a renewal that was sent before may be answered first.
        ownership.context.watchdog.ask_now(lambda key: key == ownership.commands.key)
        await asyncio.sleep(_LOOK_AGAIN)
