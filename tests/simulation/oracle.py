"""What must hold after every step of a universe, seen from everywhere at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from redisson_py import Lease
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS
from tests.simulation.hosts import Host
from tests.simulation.kinds import PERMITS, Kind, members_of
from tests.simulation.losses import Losses
from tests.simulation.network import Node

#: The longest lease that a worker asks for: so many times the watchdog's.
LONGEST_LEASE = 30.0

#: Seconds after which every waiter asks again, whatever it has heard.
LONGEST_POLL = 1.5 * SAFETY_POLL_SECONDS + 0.5


@dataclass(eq=False)
class Grip:
    """What one acquisition gave, as the holder sees it.

    Attributes:
        worker: The name of the task that acquired it.
        began: When it asked.
        gone_until: When it must end, because the servers have lost it.
        reported_by: When its holder must know of that, if it is renewed.
        seen: The state in which it was last compared with the servers.
    """

    lease: Lease
    host: Host
    worker: str
    side: str
    units: int
    began: float
    gone_until: float = math.inf
    reported_by: float = math.inf
    seen: object = None

    def __repr__(self) -> str:
        return f"{self.worker} {self.side}({self.lease.owner[-12:]}, {self.lease.remaining:.6f} s)"


class Oracle:
    """Knows every lease that anybody may rely on, and compares it with the servers.

    Args:
        kind: What is held.
        nodes: The servers.
        time: The time of the simulation.
        lease_time: For how long the watchdogs renew.

    """

    def __init__(
        self, kind: Kind, nodes: Sequence[Node], time: Callable[[], float], lease_time: float
    ) -> None:
        self._kind = kind
        self._nodes = nodes
        self._network = nodes[0].network
        self._time = time
        #: The longest lease that anybody asks for: its answer may be on its way.
        self._longest = lease_time * LONGEST_LEASE
        self._live: list[Grip] = []
        #: What has ended by the clock while its client still counts it as held.
        self._untold: list[Grip] = []
        self._losses = Losses(kind, nodes, time)
        self._reported_within = math.inf
        self._top_token = 0
        self._owners: set[str] = set()
        self._waiting: dict[str, Host] = {}
        self._free_since: float | None = None
        #: How many commands were executed when it was last seen to be free.
        self._free_after = -1
        self._patience = math.inf
        self._shortened_at = -math.inf

    def floor(self) -> int:
        """Return the greatest token that was given out so far."""
        return self._top_token

    def granted(self, grip: Grip, floor: int) -> None:
        """Somebody has got a lease; `floor` is what `floor()` was when it asked for it."""
        owner = grip.lease.owner
        token = grip.lease.token
        if token is not None:
            # Whoever enters again has the token of the outer lease.
            least = floor if owner in self._owners else floor + 1
            # A hold that its server has lost may be passed on, with a token of when it was granted.
            lost = self._losses.touches(grip.lease, grip.began)
            assert token >= least or lost, f"token {token} after {floor}"
            self._owners.add(owner)
            self._top_token = max(self._top_token, token)
        self._live.append(grip)

    def data_lost(self, node: Node) -> None:
        """A server loses its data now."""
        self._losses.emptied(node)
        self._set_ends()

    def freed(self, node: Node, owners: Collection[str]) -> None:
        """Somebody has freed the lock on a server from these owners, by force."""
        self._losses.freed(node, owners)
        self._set_ends()

    def _set_ends(self) -> None:
        """Note when those who rely on what was lost must be told."""
        present = self._time()
        for grip in self._live:
            if grip.gone_until < math.inf or self._protected(grip) or len(self._nodes) > 1:
                continue
            answered_late = present + self._longest
            grip.gone_until = max(grip.lease._ends_at, answered_late)
            grip.reported_by = present + self._reported_within

    def expect_news(self, seconds: float) -> None:
        """From now on each holder whose lease is renewed knows of a loss within that time."""
        self._reported_within = seconds

    def _protected(self, grip: Grip) -> bool:
        return not self._losses.happened or self._losses.protects(grip.lease, grip.began)

    def keeps(self, lease: Lease, began: float) -> bool:
        """Return whether the servers must have a lease now; it was granted before `began`."""
        return lease.remaining > 0 and not self._losses.forgot(lease, began)

    def relied_on(self, host: Host, side: str) -> list[Grip]:
        """Return what tasks of a host rely on now."""
        return [
            grip
            for grip in self._live
            if grip.host is host and grip.side == side and grip.lease.remaining > 0
        ]

    @contextmanager
    def waits(self, worker: str, host: Host) -> Iterator[None]:
        """Note that somebody waits, inside the block, for as long as it takes."""
        self._waiting[worker] = host
        try:
            yield
        finally:
            self._waiting.pop(worker, None)

    def shortened(self) -> None:
        """A holder sets a shorter lease: those who wait have heard of the longer one."""
        self._shortened_at = self._time()

    def expect_hand_offs(self, seconds: float) -> None:
        """From now on nobody waits longer than that while it is free."""
        self._patience = seconds
        self._free_since = None

    def check(self) -> None:
        """Fail unless every invariant holds now."""
        if self._untold:
            self._check_reported()
        if not self._live:
            self._check_hand_off()
            return
        self._free_since = None
        present, executed = self._time(), self._network.executed
        ended, sound = list[Grip](), list[Grip]()
        for grip in self._live:
            lease = grip.lease
            end = lease._ends_at if lease._state == "held" else -math.inf
            if end <= present or grip.host.crashed:
                ended.append(grip)
                continue
            assert end <= grip.gone_until, f"{grip} is renewed, and no server has it"
            if present > grip.reported_by and grip.host.runs:
                renewed = all(member._is_renewed for member in members_of(lease))
                assert not renewed, f"{grip} was freed, and its holder was not told"
            if self._protected(grip):
                sound.append(grip)
            changing = [member._hold.is_changing for member in members_of(lease)]
            state = executed, end, lease._hold.leases, changing
            if grip.seen != state:
                grip.seen = state
                self._compare(grip)
        if ended:
            self._live = [grip for grip in self._live if grip not in ended]
            self._untold += ended
        if len(sound) > 1:
            self._check_together(sound)

    def _compare(self, grip: Grip) -> None:
        """Fail unless the servers have a lease for as long as its holder relies on it."""
        for member in members_of(grip.lease):
            if member._state != "held" or self._losses.forgot(member, grip.began):
                continue
            problem = self._kind.problem_of(self._nodes, member, grip.side)
            assert not problem, f"{grip} relies on its lease, and {problem}"
            problem = self._kind.count_problem_of(self._nodes, member)
            assert not problem, f"{grip}: {problem}"

    def _check_reported(self) -> None:
        """Fail if servers let others in before a client has recorded the loss of its lease."""
        # What ends while its process is paused is recorded late.
        self._untold = [
            grip
            for grip in self._untold
            if grip.lease._state == "held" and grip.host.runs and not self._touched(grip)
        ]
        present = self._time()
        for grip in self._untold:
            kept = self._kind.keeps(self._nodes, grip.lease, grip.side)
            # A process that has just gone on has not run yet.
            assert kept or grip.host.due_at(present) <= present, f"{grip} is lost, and not told"

    def _touched(self, grip: Grip) -> bool:
        return self._losses.happened and self._losses.touches(grip.lease, grip.began)

    def _check_hand_off(self) -> None:
        """Fail if somebody waits for what has been free for long."""
        waiting = self._patience < math.inf and self._waiting
        if not waiting or not any(host.runs for host in waiting.values()) or self._taken():
            self._free_since = None
            return
        present = self._time()
        if self._free_since is None:
            self._free_since = present
        reported_late = present - self._shortened_at < 2 * LONGEST_POLL
        patience = max(self._patience, LONGEST_POLL if reported_late else 0.0)
        if present - self._free_since >= patience:
            left = [name for name, host in waiting.items() if host.runs]
            raise AssertionError(f"it is free, and {left} wait")

    def _taken(self) -> bool:
        """Return whether a server has a hold. What is free stays it until a command is executed."""
        if self._free_after == self._network.executed:
            return False
        taken = self._kind.taken(self._nodes)
        self._free_after = -1 if taken else self._network.executed
        return taken

    def _check_together(self, held: list[Grip]) -> None:
        if self._kind.subject.is_semaphore:
            assert sum(grip.units for grip in held) <= PERMITS, f"more than there are: {held}"
            return
        writers = {grip.worker for grip in held if grip.side != "read"}
        if writers:
            assert len({grip.worker for grip in held}) == 1, f"held by several: {held}"
