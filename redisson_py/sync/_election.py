"""Elections, and the lease of a leader.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import LockSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.etcd import Leader
from redisson_py.etcd import Leadership as AsyncLeadership
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._observing import Observation
from redisson_py.sync._store_locks import StoreLock
from redisson_py.sync._wrapping import Wrapper, lease_kinds


@final
class Leadership(FencedLease):
    """The lease of a leader: from its election to the end of its block, or the loss.

    `token` is its fencing token, greater than that of every earlier leader.
    """

    def proclaim(self, value: str | bytes) -> None:
        """Publish another value without another election. One round trip.

        If it is interrupted or gets no answer, the value may be the new one or the old one:
        proclaim again. A request that arrives late changes neither a later value nor that of a
        later leader.

        Raises:
            LeaseLostError: It no longer leads; nothing changed.
            NotHeldError: It was released.
            ConnectionLostError: The store did not answer.
            BackendError: It refused, for example a value of more than 1.5 MiB.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes.
        """
        self._call(lambda own: own.proclaim(value))


@final
class _Candidate(LockOf[Leadership], StoreLock):
    """The lock that the campaigns with one value acquire."""


@final
class Election(Wrapper):
    """An election of a leader among threads of any number of processes, in etcd.

    Made by `store.get_election(name)`. A leader holds a lock, and publishes a value that
    everybody can read, such as its address:

        with election.campaign("host-1:8080") as leadership:
            ...

    It shares its keys with the `Election` of Go's `concurrency` package and with `etcdctl
    elect`. Use it where others must find the leader; otherwise use a lock.

    Promised: at any instant at most one thread leads, also if a minority of the members fails.
    A leader's own view ends before etcd's; its body runs on, and notices it by `check`.
    Candidates are elected in the order in which etcd saw them, also threads of one client: each
    has its own key, with its value. An observer sees states in their order, and finally the
    newest one, through broken connections, restarts and compaction.

    Not promised: that an observer sees each value. Of several changes in a row it may see only
    the last, and that may be out of date. Against a leader that is paused only the fencing
    token is safe, if the resource checks it.

    A thread that leads cannot campaign again: that is a `RuntimeError`. In etcd a lock of the
    same name has the same keys, as in Go: its holder would be a leader with its owner as the
    value. Use a name for one of them.

    Cost: uncontended two round trips for a campaign and its end, one for `proclaim` and
    `leader`. A client that only observes has no session in etcd. It costs one watch, on the
    stream that all watches of the client share, and one read for each change and every few
    seconds.
    """

    @property
    def name(self) -> Name:
        """The name, as it was given."""
        value: Name = self._shape.name
        return value

    @explained
    def campaign(
        self,
        value: str | bytes,
        *,
        timeout: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> HoldBlock[Leadership]:
        """Return a block that waits until the thread is elected, and leads until it is left.

        `with election.campaign("host-1:8080") as leadership`. Above a function it is a decorator,
        as `hold` of a lock is. Times, interruption, losses and errors are those of `hold` and
        `acquire` of a lock: with `timeout=0` it asks once, and raises `AcquireTimeoutError` if
        somebody else leads.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; None: the client's `acquire_timeout`.
            max_hold: Seconds to lead at most; None leads until the block is left.

        Raises:
            TypeError: The value is neither str nor bytes, or a time is none.
            ValueError: A time is out of range.
        """
        candidate = _Candidate(lambda of: of(self)._candidate(value))
        return candidate.hold(timeout=timeout, max_hold=max_hold)

    def leader(self) -> Leader | None:
        """Return the leader and its value; None if nobody leads. One round trip.

        Raises:
            ConnectionLostError: The store did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        value: Leader | None = self._call(lambda own: own.leader())
        return value

    def observe(self) -> Observation[Leader | None]:
        """Yield the present leader, or None, then each change of the leader or its value.

            for leader in election.observe():
                ...

        It does not poll. Leave the loop whenever you like, by `break` or by interruption: nothing
        is left behind. It survives broken connections and restarts of etcd.

        Raises:
            ConnectionLostError: The store did not answer for `command_timeout`, so the last state
                may be out of date. Observe again.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        return Observation(self, lambda own: own.observe())

    def inspect(self) -> LockSnapshot:
        """Return the leader and the candidates that wait, for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


lease_kinds[AsyncLeadership] = Leadership
