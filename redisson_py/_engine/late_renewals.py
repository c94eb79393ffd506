"""Tells a listener of late renewals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._listener import RenewedLateEvent

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold


def tell_late_renewal(hold: Hold, present: float, due: float) -> None:
    """Tell the listener of a renewal confirmed with less than a third of the lease left."""
    ownership = hold.ownership
    if (teller := ownership.context.teller) is not None:
        left = max(0.0, hold.ends_at - present)
        name, kind = ownership.name, ownership.kind
        event = RenewedLateEvent(name, kind, hold.owner, present - due, left)
        teller.tell("renewed_late", event)
