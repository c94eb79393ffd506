"""Snapshots of semaphores for people: who has what. Nothing is decided from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from redisson_py._primitives.context import Context
from redisson_py._primitives.looking import HolderSnapshot, _holder


@dataclass(frozen=True, slots=True)
class SemaphoreSnapshot:
    """A semaphore as Redis had it a moment ago.

    Attributes:
        available: How many permits are free; None where there is no such semaphore.
        holders: Who has how many, as `holds`. Of a plain semaphore only clients of this
            library: Redisson does not say who took its units. The owner of a permit that
            Redisson took is the permit's id.
        permit_ids: The ids of the permits, in the same order, where they have ids.
        waiters: Tasks of this client that wait for it.
        keys: The keys it uses.
    """

    available: int | None
    holders: tuple[HolderSnapshot, ...]
    permit_ids: tuple[str, ...]
    waiters: int
    keys: tuple[str, ...]


async def look_at_semaphore(
    context: Context,
    free: bytes,
    rows: list[tuple[str, int, float]],
    waiters: int,
    keys: tuple[bytes, ...],
    permit_ids: tuple[str, ...] = (),
) -> SemaphoreSnapshot:
    """Return a snapshot, with the holders of owner, units and seconds left described."""
    holders = [await _holder(context, *row) for row in rows]
    for place, permit_id in enumerate(permit_ids):
        if holders[place].host is None:
            # Redisson's, or nobody has described itself as that owner: any id looks like ours.
            holders[place] = replace(holders[place], owner=permit_id)
    return SemaphoreSnapshot(
        int(free) if free else None,
        tuple(holders),
        permit_ids,
        waiters,
        tuple(key.decode(errors="replace") for key in keys),
    )
