"""Locks of one server.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from redisson_py import LockSnapshot
from redisson_py._time import Duration
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_like import LockLike


class ServerLock(LockLike):
    """Base of the locks that one server keeps: what members of a `RedLock` have in common."""

    def inspect(self) -> LockSnapshot:
        """Return the holder, as a snapshot for people. Decide nothing from it.

        `waiters` is None: Redis does not record who waits for this kind of lock.
        """
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class RLock(ServerLock):
    """A lock that one thread holds at a time, across processes and hosts.

    The holder is the current thread: it may re-enter, and no other thread shares its hold. One
    lock object may be shared by any number of threads. With `reentrant=False` a second acquire
    by the holder raises `RuntimeError`.

    Use `FencedLock` where the protected resource can check a token, and `FairLock` where the
    order of arrival matters across processes.

    Promised: at any instant at most one owner holds the lock as the server sees it, and a
    holder's own view ends before the server's. Threads of one client are served in the order
    they came; processes take turns.

    Not promised: an order between processes; exclusion after a failover that lost the write,
    after an eviction or FLUSHALL, or when the server's clock is stepped forward; that a paused
    holder notices its loss in time. In those cases only a fencing token protects the resource.

    Cost: uncontended one round trip for an acquire and one for a release. Inside one process a
    contended lock is passed from thread to thread without a command. Interruption, times and
    errors: see `acquire` and `release`.

    Protocol: Redisson's RLock (a hash of owner and hold count whose expiry is the lease, a
    message on release). Passing in one process: lock cohorting, Dice, Marathe, Shavit, PPoPP
    2012.
    """


@final
class FencedLock(ServerLock):
    """A reentrant lock whose leases carry a fencing token, for resources that can check it.

    What it gives is a `FencedLease`, whose `token` is greater than that of every earlier
    holder. Send it with each write, and have the protected resource refuse a token smaller than
    one it has seen: then a holder that was paused past its lease can do no harm. Re-entry keeps
    the token.

    Use it instead of `RLock` where correctness, not only efficiency, depends on the lock. Do
    not use both on one name: a plain lock takes no token, and a thread that holds it gets
    `RuntimeError` when it asks for one.

    Promised: tokens grow from holder to holder as long as the counter survives in Redis; if it
    is lost, or expires by the client's `idle_lifetime`, as long as the server's clock is ahead
    of the last token (microseconds). Not promised: that tokens are consecutive, or that
    Redisson's `getToken` (the last one issued) belongs to the holder; nor, after Redis lost its
    data, that a hold passed among this client's threads has a greater token than another
    process got meanwhile: that hold is lost, and the resource refuses it.

    Cost, interruption, times and errors: as for `RLock`.

    Protocol: Redisson's RFencedLock, its counter raised to max(last + 1, server microseconds);
    see Kleppmann, "How to do distributed locking", 2016.
    """

    if TYPE_CHECKING:

        def acquire(
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> FencedLease: ...

        def try_acquire(
            self,
            *,
            timeout: Duration | None = 0,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> FencedLease | None: ...

        def hold(
            self,
            *,
            timeout: Duration | None = None,
            lease_time: Duration | None = None,
            max_hold: Duration | None = None,
        ) -> HoldBlock[FencedLease]: ...

        def __enter__(self) -> FencedLease: ...


@final
class FairLock(ServerLock):
    """A lock that one thread holds at a time, given in the order in which they asked for it.

    Use it instead of `RLock` where the order of arrival matters between processes, or where no
    thread may starve. Otherwise prefer `RLock`: it passes the lock to a thread of the same
    process without asking Redis, and keeps no queue there.

    The holder is the current thread: it may re-enter, ahead of the queue. With
    `reentrant=False` a second acquire by the holder raises `RuntimeError`.

    Promised: threads of all processes are served in the order in which Redis saw them come;
    waiters that give up, are interrupted or die do not change the order of the others. A dead
    waiter is passed over one `lease_time` of its client after it last asked. A live one keeps
    its place for as long as it waits. A release wakes the next in the queue and no other.
    Everything else is as for `RLock`, exclusion and its limits included.

    Not promised: that a thread of a client that could not reach Redis for a whole `lease_time`
    keeps its place when its turn came meanwhile (it is queued again, as the last); that a dead
    waiter of Redisson is noticed before Redisson's own five minutes; that `try_acquire()` gets
    a free lock for which others wait; that it wakes in time, or keeps its order, beside an
    `RLock` or a `FencedLock` of the same name. These exclude it, but know nothing of its queue:
    use a name for one of them only.

    Cost: uncontended one round trip, as `RLock`. Each waiting thread has a subscription and a
    place in Redis of its own and shows that it is alive by asking again, a small command every
    few seconds and at least three times a `lease_time` of the client. A hold much shorter than
    that costs one message more, so that the next in the queue knows when it ends; when it ends
    by itself, only that one asks.

    Interruption: an interrupted `acquire` leaves the queue and holds nothing; an interrupted
    `release` is carried out. Times are seconds. Errors: see `acquire` and `release`.

    Protocol: Redisson's RFairLock (a list of owners, a sorted set of the moments after which
    they count as dead, a channel for each), with its known faults repaired from our side:
    waiters show that they are alive, a live one is never forgotten, and none asks without a
    pause.
    """

    def inspect(self) -> LockSnapshot:
        """Return the holder, and the waiters in order, as a snapshot. Decide nothing from it.

        A waiter that died is left out once it has not asked for its time.
        """
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value
