"""The handle of units taken from a semaphore."""

from __future__ import annotations

from typing import final

from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._options import OnLost


@final
class Permit(Lease):
    """Units of a semaphore, from one acquisition to its release or its loss: a `Lease`.

    Use it as `async with semaphore as permit`, or keep it and call `release` yourself, from
    any task. Until then the watchdog renews it, unless it has a lease time; a permit of a
    process that died is back within one lease.

    Attributes:
        id: What Redis calls it. Of a `PermitExpirableSemaphore` 32 hex digits, with which any
            client, Redisson too, can release it; of a `Semaphore` the same text as `owner`.
    """

    __slots__ = ("id",)

    def __init__(
        self, hold: Hold, permit_id: str, limit: float | None, on_lost: OnLost, granted_at: float
    ) -> None:
        super().__init__(hold, limit, None, on_lost, granted_at)
        self.id = permit_id

    @property
    def units(self) -> int:
        """How many units it still stands for; 0 once lost or released."""
        return self._hold.count if self._state == "held" else 0
