"""Locks made of several: MultiLock and RedLock.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import JointSnapshot
from redisson_py import MultiLock as AsyncMultiLock
from redisson_py import RedLock as AsyncRedLock
from redisson_py._arguments import explained
from redisson_py._time import Duration
from redisson_py.sync._leases import Lease
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._locks import ServerLock


class CompositeLock(LockLike):
    """Base of the locks that are made of other locks."""

    @property
    def key(self) -> bytes:
        """A key made from its members and their servers; it does not exist on any server."""
        value: bytes = self._shape.key
        return value

    def inspect(self) -> JointSnapshot:
        """Return a snapshot of the members' holders, for people. Decide nothing from it."""
        value: JointSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class MultiLock(CompositeLock):
    """Several locks that are held together: all of them, or none.

    Members may be of any kind (read and write sides and RedLocks too), client and store. The
    thread that holds the MultiLock holds each member, and may re-enter each one alone. Use it
    to work on several resources at once, such as a transfer between two accounts.

    Promised: no deadlock among MultiLocks, or with others that take several of these locks in
    another order. Members are sorted by name and server. While the MultiLock holds some of
    them, it waits for another only for a limited time, then releases all and starts again after
    a random pause; the limit doubles each time, up to 6 seconds, and from then on it starts
    with the member that was busy. `timeout` covers all members together. Without a lease time
    each member's client renews it, even while the MultiLock waits for later members; with one,
    the lease starts when all are held, and is the same for all. If a member is lost, the
    MultiLock is lost at once. `release` releases all members, even if one fails. An interrupted
    acquire holds nothing; an interrupted release is carried out.

    Not promised: an order among waiters. A MultiLock does not survive the loss of a server; for
    that see `RedLock`. Its leases have no fencing token: re-enter a fenced member inside the
    block to get its token.

    Cost: one script for each member, all in one round trip. If one is busy, the others are
    released, and the members are taken one after another, a round trip each, plus one for all
    if there is a lease time. A release is one script for each member, in one round trip.
    Servers that have a member of the same name are asked for their identity, once per
    connection.

    Source: resource ordering, Havender, "Avoiding deadlock in multitasking systems", IBM
    Systems Journal 7 (1968). Redisson's RedissonMultiLock uses the same keys, in the order they
    are given.

    Raises:
        TypeError: A member is not a lock.
        ValueError: There is no member, or one is given twice. If two addresses lead to the same
            Redis server, the first acquire raises this.
    """

    def __init__(self, *locks: LockLike) -> None:
        super().__init__(lambda of: AsyncMultiLock(*[of(lock) for lock in locks]))


@final
class RedLock(CompositeLock):
    """A lock on several independent servers that is held once a quorum of them granted it.

    Use it instead of `RLock` where the lock must survive the loss of a server, and a failover
    that loses writes must not give it to two holders: `RedLock(a.get_lock("k"),
    b.get_lock("k"), c.get_lock("k"))`, with clients of three to five servers that share nothing
    and do not replicate each other. A quorum is more than half of them.

    Promised: at most one holder, as long as the servers that forget their grant and those that
    did not grant the lock are together fewer than a quorum, and clocks run at nearly the same
    speed. The lock is available while a quorum of the servers responds: all are asked at once,
    no caller waits for more than a quorum, and a dead or unresponsive server is skipped until
    it answers again. `lease.remaining` counts from before the first request, less an allowance
    for clock drift; a quorum reached after that time does not count. Each member's client
    renews it, and the lock is lost when fewer than a quorum are left. A lock that no quorum
    granted, or that is released, is released on every server, at once or as soon as it answers.
    Threads of one client are served in order of arrival; processes take turns.

    Not promised: safety when servers restart without their data within a lease (keep them down
    for that long), when their clocks are stepped, or against a holder that was paused: "Redlock
    does not have any facility for generating fencing tokens", so where correctness depends on
    that, use `FencedLock` and have the resource check its token. A server that did not answer
    the acquire does not join later. There are no semaphores of this kind, because they would be
    unsound.

    A cluster counts as one server, whatever its nodes: they are one system and fail together.
    Use several clusters, or combine locks in a cluster with locks on servers outside it.

    Cost: one script per server to acquire and one to release, in one round trip each. Waiting
    costs a subscription on each server. Each server is asked for its identity once per
    connection, so that one server with two addresses does not count twice.

    An interrupted acquire holds nothing; an interrupted release is carried out.

    Errors: after its timeout `acquire` raises `QuorumError`, whose `answers` say what each
    server answered; `try_acquire` returns None if a quorum of servers answered, else it raises
    `QuorumError`. Servers that do not answer are not an error as long as the others are a
    quorum. Without a timeout, `ConnectionLostError` is raised when fewer than a quorum answered
    for `command_timeout`. Error replies (wrong type, out of memory) are raised when they make a
    quorum impossible.

    Source: "Distributed Locks with Redis" (Redlock), redis.io, with the objections of
    Kleppmann, "How to do distributed locking", 2016. Redisson's RedissonRedLock uses the same
    keys, without an allowance for drift.

    Raises:
        TypeError: A member is not a lock of one Redis server, or is a fair lock, whose order
            exists on one server only.
        ValueError: There is no member, or two are of one client or server. If two addresses
            lead to one server, the first acquire that reaches it raises this.
    """

    def __init__(self, *locks: ServerLock) -> None:
        super().__init__(lambda of: AsyncRedLock(*[of(lock) for lock in locks]))

    @explained
    def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire the lock within `timeout` seconds, or return None if it is busy.

        It is busy only if a quorum of the servers answered. It never overtakes: if threads of this
        client are waiting, or it is another process's turn, it returns None. Arguments and other
        errors are those of `acquire`.

        Raises:
            QuorumError: Fewer than a quorum of the servers answered.
        """
        value: Lease | None = self._acquire(
            lambda own: own.try_acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )
        return value
