"""Losing a lease on purpose, as Redis would have it lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redisson_py import Lease

#: Seconds between two looks whether the loss was noticed.
_LOOK_AGAIN: Final = 0.001


async def lose(lease: Lease) -> None:
    """Take a lease away through Redis and return when its holder knows.

    Redis forgets the holder, and only the holder: other readers and other permits stay. Waiters are
    woken. The client then asks Redis at once, where it would otherwise ask at the next renewal, and
    finds the lease gone. So all that follows is what follows a real loss: `lease.lost` is True,
    `wait_lost` returns, the body of the block is cancelled, and `LeaseLostError` with the reason
    `"taken"` comes out of the block.

    The lease may be of any kind of lock or semaphore. Of a multi lock or a red lock, as many members
    are lost as it takes. Leases of re-entries are lost together, because Redis knows one holder.

    Called inside the block of the lease itself, this call is cancelled with the rest of the body. A
    lease that is lost already stays as it is. If cancelled, the lease may or may not be lost.

    Args:
        lease: What `acquire` or `async with` gave, of a client of the running event loop.

    Raises:
        TypeError: It is no lease.
        NotHeldError: It was released, or is being released.
        ConnectionLostError: Redis did not answer.
        ClientClosedError: Its client was closed, or belongs to another event loop.
    """
    from redisson_py import Lease, NotHeldError
    from redisson_py.composite._hold import CompositeLease

    if not isinstance(lease, Lease):
        raise TypeError(f"lose() needs a lease, not {type(lease).__name__}")
    if isinstance(lease, CompositeLease):
        for member in list(lease._members):
            if lease._state == "held" and member._state == "held":
                await lose(member)
    elif lease._state == "held" and not lease.lost:
        await _take_away(lease)
    if lease._state == "released":
        raise NotHeldError(f"{lease!r} cannot be lost: it was released")


async def _take_away(lease: Lease) -> None:
    hold: Any = lease._hold
    ownership = hold.ownership
    ownership.context.check()
    # What a release sends, but the hold here does not know of it.
    await ownership.context.executor.answer(ownership._send_release(hold))
    key = ownership.commands.key
    while lease._state == "held":
        # Again, because a renewal that was sent before may be answered first.
        ownership.context.watchdog.ask_now(lambda concerned: concerned == key)
        await asyncio.sleep(_LOOK_AGAIN)
