"""The handle of units taken from a semaphore."""

from __future__ import annotations

from typing import final

from redisson_py._engine.hold import Hold, Lease


@final
class Permit(Lease):
    """Units of a semaphore, from one acquisition to its release or its loss: a `Lease`.

    Use it as `async with semaphore as permit`, or keep it and call `release` yourself, from
    any task. Until then the watchdog renews it, unless it has a lease time. The permit of a dead
    process returns within one lease. So does a permit that can no longer be released, because its
    task has ended, the `Permit` was garbage-collected, and its `id` was never read; a warning is
    logged.
    """

    __slots__ = ("_id",)

    def __init__(self, hold: Hold, permit_id: str, limit: float | None, granted_at: float) -> None:
        super().__init__(hold, limit, None, granted_at)
        self._id = permit_id

    @property
    def id(self) -> str:
        """The id of the permit in Redis.

        For a `PermitExpirableSemaphore`, 32 hex digits, with which any client, including Redisson,
        can release it; for a `Semaphore`, the same text as `owner`. After you read it, the permit
        is renewed until it is released, even if this object is gone.
        """
        self._hold.id_read()
        return self._id

    @property
    def units(self) -> int:
        """The number of units it still holds; 0 once lost or released."""
        return self._hold.units if self._state == "held" else 0


def id_of(permit: Permit) -> str:
    """Return the id of a permit, which its user may not have read."""
    return permit._id
