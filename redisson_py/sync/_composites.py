"""Locks made of several: MultiLock and RedLock.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import JointSnapshot
from redisson_py._arguments import explained
from redisson_py._time import Duration
from redisson_py.sync._leases import Lease
from redisson_py.sync._lock_like import LockLike


class CompositeLock(LockLike):
    """Base of the locks that are made of others."""

    @property
    def key(self) -> bytes:
        """A key made of its members and their servers; it does not exist there."""
        value: bytes = self._shape.key
        return value

    def inspect(self) -> JointSnapshot:
        """Return the holders of its members, as a snapshot for people. Decide nothing from it."""
        value: JointSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class MultiLock(CompositeLock):
    """Several locks that are held together: all of them, or none.

    Members may be of any kind (also read and write sides, also RedLocks), clients and stores.
    The thread that holds the MultiLock holds each member, and may re-enter each by itself. Use
    it to work on several resources at once, such as a transfer between two accounts.

    Promised: no deadlock among MultiLocks, and none with others that take several of these
    locks in another order. Members are sorted by name and server. While it holds some of them,
    it waits for another one for a limited time only, then gives all back and begins again after
    a random pause; the limit doubles each time, up to 6 seconds, and from then on it begins
    with the one that was busy. `timeout` covers all members together. Without a lease time each
    member is renewed by its own client, also while it waits for later ones; with one, the lease
    counts from when all are held, and is the same for all. If a member is lost, the MultiLock
    is lost at once. `release` releases all members, also if one of them fails. Interrupted, an
    acquire holds nothing, and a release is carried out.

    Not promised: an order among waiters. A MultiLock does not survive the loss of a server; for
    that see `RedLock`. Its leases have no fencing token: re-enter a fenced member inside the
    block for its token.

    Cost: free members are asked at once, one script each in one round trip; when one is busy,
    what the others gave is given back and they are taken one after another, a round trip each,
    and with a lease time one more for all together. A release is one script each, in one round
    trip. If members of different servers have the same name, these servers are asked once on
    each connection who they are.

    Source: resource ordering, Havender, "Avoiding deadlock in multitasking systems", IBM
    Systems Journal 7 (1968). Redisson's RedissonMultiLock uses the same keys, in the order they
    are given.

    Raises:
        TypeError: A member is not a lock.
        ValueError: There is no member, or one is there twice. If the same server of Redis was
            given under two addresses, this is raised by the first acquire.
    """


@final
class RedLock(CompositeLock):
    """A lock on several independent servers that is held once a quorum of them granted it.

    Use it instead of `RLock` where the lock must survive the loss of a server, and a failover
    that forgets writes must not give it to two: `RedLock(a.get_lock("k"), b.get_lock("k"),
    c.get_lock("k"))` with clients of three to five servers that share nothing and do not
    replicate each other. A quorum is more than half of them.

    Promised: at most one holder, as long as the servers that forget what they granted, and
    those that did not grant it, are together fewer than a quorum, and clocks run at nearly the
    same speed. It remains available while a quorum of the servers responds: all are asked at
    once, no caller waits for more than a quorum, and a server that is dead or unresponsive is
    left out until it answers again. `lease.remaining` counts from before the first request,
    less the drift allowance; a quorum that comes after that time counts as none. Each member is
    renewed by its own client, and when fewer than a quorum are left the lock is lost. What was
    not granted, or is given up, is given back on every server, at once or as soon as it
    answers. Threads of one client are served in the order they came; processes take turns.

    Not promised: safety when servers restart without their data within a lease (let them stay
    down for that long), when their clocks are stepped, or against a holder that was paused:
    "Redlock does not have any facility for generating fencing tokens", and where correctness
    depends on that, use `FencedLock` and have the resource check its token. A server that did
    not answer when the lock was asked for does not join later. There are no semaphores on this
    principle, because they would be unsound.

    A cluster is one server here, whatever its nodes: they are one system and fail together.
    Take several clusters, or locks in a cluster beside locks of servers outside it.

    Cost: one script a server for an acquire and one for a release, in one round trip each.
    Waiting costs a subscription on each server. Each server is asked once on each connection
    who it is, so that one server with two addresses does not count twice.

    Interrupted, an acquire holds nothing, and a release is carried out.

    Errors: `acquire` raises `QuorumError` when its time is up, whose `answers` tell what each
    server said; `try_acquire` returns None then if a quorum of servers answered, and raises
    `QuorumError` if not. Servers that do not answer are no error as long as there is a quorum
    of others. Without a timeout, `ConnectionLostError` is raised when fewer than a quorum
    answered for `command_timeout`. Errors that servers reply (wrong type, out of memory) are
    raised when they make a quorum impossible.

    Source: "Distributed Locks with Redis" (Redlock), redis.io, with the objections of
    Kleppmann, "How to do distributed locking", 2016. Redisson's RedissonRedLock uses the same
    keys, without a margin for drift.

    Raises:
        TypeError: A member is not a lock of one Redis server, or is a fair lock, whose order
            exists on one server only.
        ValueError: There is no member, or two are of one client or server. If one server was
            given under two addresses, this is raised by the first acquire that reaches it.
    """

    @explained
    def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire it if that is possible within `timeout` seconds; return None if it is busy.

        It is busy only if a quorum of the servers answered. It never overtakes: with threads of
        this client waiting, or another process's turn due, it returns None. Arguments and other
        errors are those of `acquire`.

        Raises:
            QuorumError: Fewer than a quorum of the servers answered.
        """
        value: Lease | None = self._acquire(
            lambda own: own.try_acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )
        return value
