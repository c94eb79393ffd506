"""Local counters, for people. Nothing is decided from them, and looking at them is no I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """What one client did so far, and does now. For people; nothing is decided from it.

    Attributes:
        waiters: Tasks that wait for something now.
        held_leases: Leases held now.
        renewals: Batches of leases renewed.
        losses: Leases lost.
        wake_ups: Waiters woken by messages and reconnections.
        commands_sent: Commands written, scripts included.
        connections: Connections opened.
    """

    waiters: int
    held_leases: int
    renewals: int
    losses: int
    wake_ups: int
    commands_sent: int
    connections: int


@dataclass(frozen=True, slots=True)
class PrimitiveStatistics:
    """What this client does with one name now. For people; nothing is decided from it.

    Attributes:
        waiters: Tasks of this client that wait for it.
        held_leases: Its leases that tasks of this client hold.
    """

    waiters: int
    held_leases: int
