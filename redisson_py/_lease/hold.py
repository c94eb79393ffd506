"""A hold: what Redis records for one owner on one name, and which task enjoys it here.

A hold belongs to one task at a time. It has one or more leases, one for each acquisition by
that task; it can be passed to another task of this client, which gets a lease of its own on
the same owner, while Redis notices nothing.

Times are those of `_time.now()`. `ends_at` counts from the moment before the granting or
renewing request was first written, less an allowance for clocks that run at different speeds,
so it always comes before the end that the server sees.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Literal, Protocol

from redisson_py._keys import Name
from redisson_py._owner import TaskRef
from redisson_py._scripts.source import Script
from redisson_py._time import now

if TYPE_CHECKING:
    from redisson_py._lease.lease import Lease

log = logging.getLogger("redisson_py")

#: Allowance for clock drift: a share of the lease, and a floor in seconds.
DRIFT = 0.01
DRIFT_FLOOR = 0.002

State = Literal["held", "released", "lost"]


def lease_end(asked_at: float, lease_time: float) -> float:
    """Return until when a holder may rely on a lease it asked for at `asked_at`."""
    return asked_at + lease_time * (1 - DRIFT) - DRIFT_FLOOR


def lease_for(ends_at: float, present: float) -> float:
    """Return the lease to ask for at `present` so that a holder may rely on it until `ends_at`."""
    return max(0.001, (ends_at - present + DRIFT_FLOOR) / (1 - DRIFT))


class Resource(Protocol):
    """What a lease needs of the thing it is a lease of."""

    @property
    def name(self) -> Name: ...
    @property
    def key(self) -> bytes: ...
    @property
    def kind(self) -> str:
        """What people call it: lock, fenced lock."""
        ...

    @property
    def _hold_key(self) -> bytes:
        """By what a task finds its hold; differs from the key where a key has several sides."""
        ...

    @property
    def _lease_key(self) -> bytes:
        """The key that keeps the lease in Redis."""
        ...

    @property
    def _renewal(self) -> Script:
        """The script that renews a batch of holds of this kind."""
        ...

    @property
    def _cut_by_others(self) -> bool:
        """Whether others may shorten what keeps a hold in Redis.

        Then a hold that ends by itself is asked after as often as others are renewed, by the
        same script with a lease of 0.
        """
        ...

    async def _release_lease(self, lease: Lease) -> None: ...
    async def _set_lease(self, lease: Lease, lease_time: float) -> None: ...
    def _hold_ended(self, hold: Hold) -> None:
        """The hold was lost; whoever waits for it here must look elsewhere."""
        ...

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: pass it on or release it, without waiting."""
        ...


class Hold:
    """One owner's hold on one resource.

    Attributes:
        mark: What Redis calls this hold: its owner, if nothing else is given.
        count: The hold count Redis has, or is about to have.
        watched: The watchdog renews it. Otherwise it ends by itself.
        granted_at: When Redis granted it, for turns; passing does not change it.
        doubtful: A reply was lost on the way; a late duplicate may travel under this owner.
        task: The task that enjoys it.
        setting: What last set its lease to another length, if the answer may be due.
        leases: Its unreleased leases, oldest first.
    """

    __slots__ = (
        "__weakref__",
        "count",
        "doubtful",
        "ends_at",
        "granted_at",
        "leases",
        "mark",
        "next_token",
        "owner",
        "resource",
        "setting",
        "state",
        "task",
        "tokens_end",
        "watched",
        "weak_leases",
    )

    def __init__(
        self,
        resource: Resource,
        owner: str,
        ends_at: float,
        watched: bool,
        task: TaskRef,
        mark: str | bytes | None = None,
    ) -> None:
        self.resource = resource
        self.owner = owner
        self.mark = mark or owner
        self.ends_at = ends_at
        self.watched = watched
        self.granted_at = now()
        self.task = task
        self.state: State = "held"
        self.count = 1
        self.doubtful = False
        self.leases: list[Lease] = []
        self.weak_leases: tuple[weakref.ref[Lease], ...] = ()
        self.setting: object = None
        self.next_token: int | None = None
        self.tokens_end = 0

    @property
    def asked_after(self) -> bool:
        """Whether Redis is asked about it now and then: to renew it, or to see it is there."""
        return self.watched or self.resource._cut_by_others

    @property
    def held(self) -> bool:
        """Whether it can still be relied on, by the local clock."""
        return self.state == "held" and now() < self.ends_at

    def lose(self, reason: str) -> list[Lease]:
        """End it without its holder's release; return the leases that went with it."""
        if self.state != "held":
            return []
        self.state = "lost"
        gone = [lease for lease in self.all_leases() if lease._lose()]
        log.warning(
            "lost %s %r: %s (owner %s, held for %.3f s)",
            self.resource.kind,
            self.resource.name,
            reason,
            self.owner,
            now() - self.granted_at,
        )
        self.resource._hold_ended(self)
        return gone

    def all_leases(self) -> list[Lease]:
        """Return its unreleased leases that somebody still has a reference to."""
        if not self.weak_leases:
            return self.leases
        return self.leases + [found for ref in self.weak_leases if (found := ref()) is not None]

    def drop(self, lease: Lease) -> None:
        """Take a lease out: it was released, or its own time was up."""
        if lease in self.leases:
            self.leases.remove(lease)
        if self.weak_leases:
            kept = [ref for ref in self.weak_leases if ref() not in (lease, None)]
            self.weak_leases = tuple(kept)

    def is_abandoned(self) -> bool:
        """Whether nobody can release it any more: its task ended and its leases are garbage."""
        task = self.task()
        if task is not None and not task.done():
            return False
        # From here on only the user's references keep a lease alive.
        self.weak_leases += tuple(weakref.ref(lease) for lease in self.leases)
        self.leases.clear()
        self._let_wholes_go()
        return not self.all_leases()

    def _let_wholes_go(self) -> None:
        """Have only the user's references keep the leases alive that ours are parts of."""
        for lease in self.all_leases():
            if lease._whole is not None and (whole := lease._whole()) is not None:
                whole._hold.is_abandoned()
