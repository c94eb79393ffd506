"""Election: one leader, whose value everybody can read.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import Leader, LockSnapshot, PrimitiveStatistics
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import Leadership
from redisson_py.sync._observing import Observation
from redisson_py.sync._wrapping import Wrapper


@final
class Election(Wrapper):
    """An election of a leader among threads of any number of processes.

    Made by `client.get_election(name)`. A leader holds a lock, and publishes a value that
    everybody can read, such as its address:

        with election.campaign("host-1:8080") as leadership:
            ...

    Use it where others must find the leader; otherwise use a lock.

    Promised: on the server, at any instant at most one thread leads; in etcd and ZooKeeper also
    if a minority of the members fails. A leader's own view ends before the server's, and
    `leadership.check()` raises from then on. Candidates are elected in the order in which the
    server saw them, also threads of one client: each has its own entry there, with its value.
    An observer sees states in their order, and finally the newest one, through broken
    connections and restarts.

    In PostgreSQL and MySQL a candidate that is silent when its turn comes, as one that is
    paused, may be passed over.

    Not promised: that an observer sees each value. Of several changes in a row it may see only
    the last, and that may be out of date. Against a leader that is paused only the fencing
    token is safe, if the resource checks it. In Redis what is said of a `FairLock` after a
    failover or an eviction, and that a candidate which has died is passed over sooner than one
    `lease_time` of its client.

    A thread that leads cannot campaign again: that is a `RuntimeError`.

    A lock of the same name: in Redis candidates stand in the queue of the fair lock of that
    name, in PostgreSQL and MySQL in that of the lock. They exclude each other, its holder is no
    leader, and a thread that holds it must not campaign. In etcd and ZooKeeper they are the
    same, as for Go and Curator: the holder of the lock is a leader with its owner as the value.
    Use a name for one of them.

    Cost: uncontended two round trips for a campaign and its end, one for `proclaim` and
    `leader`. A candidate that waits costs in Redis what a waiter of a `FairLock` costs. In
    PostgreSQL each change of the leader costs one more, which tells observers. An observer
    costs in Redis one subscription, in PostgreSQL a LISTEN on the connection that hears for
    waiters, in etcd a watch on the stream that all watches of the client share, without a
    session, in ZooKeeper two watches, which fire for each candidate too; and one read or two
    for each change and every few seconds. In MySQL it reads every `poll_interval`.

    Protocol: in Redis `lua/election`, a fair lock with a fencing token; in etcd the `Election`
    of Go's `concurrency` package and of `etcdctl elect`; in ZooKeeper Curator's
    `LeaderSelector`.
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

        `with election.campaign("host-1:8080") as leadership`. It is a decorator as well, as `hold`
        of a lock is. Times, interruption, losses and errors are those of `hold` and `acquire` of a
        lock: with `timeout=0` it asks once, and raises `AcquireTimeoutError` if somebody else
        leads.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; None: the client's `acquire_timeout`.
            max_hold: Seconds to lead at most; None leads until the block is left.

        Raises:
            TypeError: The value is neither str nor bytes, or a time is none.
            ValueError: A time is out of range, or the value is no valid text.
        """
        self._shape.campaign(value, timeout=timeout, max_hold=max_hold)
        return HoldBlock(self, lambda own: own.campaign(value, timeout=timeout, max_hold=max_hold))

    @explained
    def acquire(self, value: str | bytes, *, timeout: Duration | None = None) -> Leadership:
        """Wait until the current thread is elected; it leads until `release` of what is returned.

        As `acquire` of a lock: the same interruption, which leaves nothing behind, and the same
        errors. The leadership is renewed until it is released, from any thread. Prefer `campaign`,
        whose block ends it.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; 0 asks once; None: the client's `acquire_timeout`.

        Raises:
            AcquireTimeoutError: Others led for `timeout` seconds. It is no candidate any more.
            ConnectionLostError: The server did not answer. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            RuntimeError: The thread leads already.
            BackendError: The server refused.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes, or the timeout is no time.
            ValueError: The timeout is negative or NaN, or the value is no valid text; nothing was
                sent.
        """
        outcome: Leadership = self._acquire(lambda own: own.acquire(value, timeout=timeout))
        return outcome

    def leader(self) -> Leader | None:
        """Return the leader and its value; None if nobody leads. One round trip.

        Raises:
            ConnectionLostError: The server did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        value: Leader | None = self._call(lambda own: own.leader())
        return value

    def observe(self) -> Observation[Leader | None]:
        """Yield the present leader, or None, then each change of the leader or its value.

        `for leader in election.observe():` sleeps until a change is announced; nothing announces
        the end of a lease in Redis or a database, so there it looks when the lease that it saw
        would end. Leave the loop whenever you like, by `break` or by an exception: nothing is left
        behind. It survives broken connections and restarts of the server.

        Raises:
            ConnectionLostError: The server did not answer for `command_timeout`, so the last state
                may be out of date. Observe again.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        return Observation(self, lambda own: own.observe())

    def inspect(self) -> LockSnapshot:
        """Return the leader and the candidates that wait, for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value
