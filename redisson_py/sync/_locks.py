"""Locks of one server.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import LockSnapshot
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._lock_of import LockOf


class ServerLock(LockLike):
    """Base of the locks that one Redis server keeps; a `RedLock` is made of these."""

    def inspect(self) -> LockSnapshot:
        """Return a snapshot of the holder and the waiters, in order. Decide nothing from it.

        `waiters` are the clients of this library that wait, each once for all its threads, and not
        Redisson's; of a fair lock the threads, and Redisson's threads, without those that died and
        have not asked for their time. A thread that waits for a hold of its own client is not
        there.
        """
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class RLock(ServerLock):
    """A lock that one thread holds at a time, across processes and hosts.

    The holder is the current thread: it may re-enter, and no other thread shares its hold. Any
    number of threads may share one lock object. With `reentrant=False` a second acquire by the
    holder raises `RuntimeError`.

    Use `FencedLock` where the protected resource can check a token, and `FairLock` where the
    order of arrival matters across processes.

    Promised: on the server, at most one owner holds the lock at any instant, and the holder's
    own lease ends before the server's. Threads of one client are served in order of arrival;
    processes take turns.

    Not promised: an order between processes; exclusion after a failover that lost the write,
    after an eviction or FLUSHALL, or when the server's clock is stepped forward; that a paused
    holder notices its loss in time. In those cases only a fencing token protects the resource.

    Cost: one round trip to acquire and one to release, if nobody else wants it. Inside one
    process a contended lock is passed from thread to thread without a command. For
    interruption, times and errors see `acquire` and `release`.

    Protocol: Redisson's RLock (a hash of owner and hold count whose expiry is the lease, a
    message on release). Passing in one process: lock cohorting, Dice, Marathe, Shavit, PPoPP
    2012.
    """


@final
class FencedLock(LockOf[FencedLease], ServerLock):
    """A reentrant lock whose leases carry a fencing token, for resources that can check it.

    `acquire` returns a `FencedLease`, whose `token` is greater than that of every earlier
    holder. Send it with each write, and have the protected resource refuse a token smaller than
    one it has seen: then a holder that was paused past its lease can do no harm. Re-entry keeps
    the token.

    Use it instead of `RLock` where correctness, not only efficiency, depends on the lock. Do
    not use both on one name: a plain lock has no token, and the thread that holds it gets
    `RuntimeError` when it asks for one.

    Promised: tokens grow from holder to holder as long as Redis keeps the counter. If the
    counter is lost, or expires after the client's `idle_lifetime`, tokens grow as long as the
    server's clock (microseconds) is ahead of the last token.

    Not promised: that tokens are consecutive; that Redisson's `getToken` (the last one issued)
    belongs to the holder; or, after Redis lost its data, that a hold passed among this client's
    threads has a greater token than a new holder in another process: the passed hold is lost,
    and the resource refuses it.

    Cost, interruption, times and errors: as for `RLock`.

    Protocol: Redisson's RFencedLock, its counter raised to max(last + 1, server microseconds);
    see Kleppmann, "How to do distributed locking", 2016.
    """


@final
class FairLock(ServerLock):
    """A lock that one thread holds at a time, granted in order of arrival across processes.

    Use it instead of `RLock` where the order of arrival matters between processes, or where no
    thread may starve. Otherwise prefer `RLock`: it passes the lock to a thread of the same
    process without asking Redis, and keeps no queue there.

    The holder is the current thread: it may re-enter, ahead of the queue. With
    `reentrant=False` a second acquire by the holder raises `RuntimeError`.

    Promised: Redis decides the order, over all processes; waiters that give up, are interrupted
    or die do not change the order of the others. A dead waiter is skipped one `lease_time` of
    its client after its last request; a live one keeps its place as long as it waits. A release
    wakes the next waiter only. Everything else is as for `RLock`, exclusion and its limits
    included.

    Not promised: that a thread keeps its place if its turn came while its client could not
    reach Redis for a whole `lease_time` (it is queued again, last); that a dead waiter of
    Redisson is noticed before Redisson's own five minutes; that `try_acquire()` gets a free
    lock while others wait; that it wakes in time, or keeps its order, beside an `RLock` or
    `FencedLock` of the same name. Those exclude it but do not know its queue: use only one kind
    for a name.

    Cost: one round trip if nobody else wants it, as for `RLock`. Each waiting thread has its
    own subscription and its own place in Redis, and proves that it is alive with a small
    command every few seconds, at least three times per `lease_time` of the client. A hold much
    shorter than that costs one more message, which says when it ends; if it expires, only the
    next waiter asks.

    Interruption: an interrupted `acquire` leaves the queue and holds nothing; an interrupted
    `release` is carried out. Times are in seconds. For errors see `acquire` and `release`.

    Protocol: Redisson's RFairLock (a list of owners, a sorted set of the times after which they
    count as dead, a channel for each), with its known faults fixed on our side: waiters prove
    that they are alive, a live one is never dropped, and none polls without a pause.
    """
