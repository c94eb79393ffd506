"""Loses a lease on purpose, as if Redis had lost it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

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
    from redisson_py._engine.hold import Hold

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
    """Take a lease away through Redis, and return when its holder knows.

    Redis forgets this holder, and nobody else: other readers and other permits stay. Waiters are
    woken. The client then asks Redis at once, where it would otherwise ask with the next renewal,
    and finds the lease gone. What follows is what follows a real loss: `lease.lost` is True,
    `wait_lost` returns, the body of the block is cancelled, and `LeaseLostError` with the reason
    `"taken"` comes out of the block.

    Of a multi lock or a red lock, as many members are lost as it takes. Leases of re-entries are
    lost together, because Redis knows one holder. Called inside the block of the lease itself, this
    call is cancelled with the rest of the body. If cancelled, the lease may or may not be lost.

    Args:
        held: The lease, of any kind of lock or semaphore. Or the lock or semaphore: whatever tasks
            of its client hold of that name, for code that keeps its leases to itself. The client
            must be of the running event loop.

    Raises:
        TypeError: It is none of these. Of a multi lock or a red lock give the lease.
        NotHeldError: The lease was released, or the client holds nothing of that name. (A lease
            that is lost already stays as it is.)
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
            raise NotHeldError(f"{own!r} cannot be lost: this client does not hold it")
    else:
        raise TypeError(f"lose() needs a lease, a lock or a semaphore, not {type(held).__name__}")
    if isinstance(held, Lease) and held._state == "released":
        raise NotHeldError(f"{held!r} cannot be lost: it was released")


async def _take_away(hold: Hold) -> None:
    from redisson_py._answers import RefusedError

    ownership = hold.ownership
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
