"""RLock: a reentrant lock, as Redisson's."""

from __future__ import annotations

from typing import Self, final

from redisson_py._engine import handing_over
from redisson_py._engine.handed_over import HandedOver
from redisson_py._engine.hold import FencedLease, Lease
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._redis.commands.lock import FairLockCommands, FencedLockCommands, LockCommands
from redisson_py._redis.context import RedisContext
from redisson_py._redis.courier import ADOPTABLE
from redisson_py._redis.inspecting import Describer, texts
from redisson_py._redis.view import ownership_of
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.lock_of import LockOf


class ServerLock(LockLike):
    """Base of the locks that one Redis server keeps; a `RedLock` is made of these."""

    _ownership: TaskOwnership  # type: ignore[mutable-override]

    def __init__(
        self, context: RedisContext, commands: LockCommands, ownership: TaskOwnership
    ) -> None:
        super().__init__(ownership, commands.key)
        self._context = context
        self._commands = commands

    async def inspect(self) -> LockSnapshot:
        """Return a snapshot of the holder and the waiters, in order. Decide nothing from it.

        `waiters` are the clients of this library that wait, each once for all its tasks, and not
        Redisson's; of a fair lock the tasks, and Redisson's threads, without those that died and
        have not asked for their time. A task that waits for a hold of its own client is not there.
        """
        context, commands = self._context, self._commands
        context.check()
        left, words, *others = await context.executor.run(self.key, commands.inspect())
        describer = Describer(context, self._ownership.all_holds())
        holders = await describer.holders_of(others[:words], left)
        if commands.kind in ADOPTABLE:
            holders = tuple([await describer.holding(self.key, each) for each in holders])
        waits = commands.waiters(others[words:])
        return LockSnapshot(
            holders,
            tuple(each.owner for each in waits),
            texts(commands.keys),
            waiting=await describer.waiting(waits),
        )


async def adopt(lock: ServerLock, handed: HandedOver) -> Lease:
    """Return the lease of a hold on this lock that another process has handed over."""
    return await handing_over.adopt(lock._ownership, handed)


@final
class RLock(ServerLock):
    """A lock that one task holds at a time, across processes and hosts.

    The holder is the current asyncio task: it may re-enter, and its child tasks do not share the
    hold. Any number of tasks may share one lock object. With `reentrant=False` a second acquire by
    the holder raises `RuntimeError`.

    Use `FencedLock` where the protected resource can check a token, and `FairLock` where the
    order of arrival matters across processes.

    Promised: on the server, at most one owner holds the lock at any instant, and the holder's own
    lease ends before the server's. Tasks of one client are served in order of arrival;
    processes take turns.

    Not promised: an order between processes; exclusion after a failover that lost the write,
    after an eviction or FLUSHALL, or when the server's clock is stepped forward; that a
    paused holder notices its loss in time. In those cases only a fencing token protects the
    resource.

    Cost: one round trip to acquire and one to release, if nobody else wants it. Inside one process
    a contended lock is passed from task to task without a command. For cancellation, times and
    errors see `acquire` and `release`.

    Protocol: Redisson's RLock (a hash of owner and hold count whose expiry is the lease, a
    message on release). Passing in one process: lock cohorting, Dice, Marathe, Shavit,
    PPoPP 2012.
    """

    def __init__(self, context: RedisContext, name: Name, *, reentrant: bool = True) -> None:
        commands = LockCommands(context.options.names.key(name))
        ownership = ownership_of(context, name, commands, reentrant=reentrant)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, reentrant=self._ownership.reentrant)


@final
class FencedLock(LockOf[FencedLease], ServerLock):
    """A reentrant lock whose leases carry a fencing token, for resources that can check it.

    `acquire` returns a `FencedLease`, whose `token` is greater than that of every earlier holder.
    Send it with each write, and have the protected resource refuse a token smaller than one it
    has seen: then a holder that was paused past its lease can do no harm. Re-entry keeps the token.

    Use it instead of `RLock` where correctness, not only efficiency, depends on the lock. Do not
    use both on one name: a plain lock has no token, and the task that holds it gets `RuntimeError`
    when it asks for one.

    Promised: tokens grow from holder to holder as long as Redis keeps the counter. If the counter
    is lost, or expires after the client's `idle_lifetime`, tokens grow as long as the server's
    clock (microseconds) is ahead of the last token.

    Not promised: that tokens are consecutive; that Redisson's `getToken` (the last one issued)
    belongs to the holder; or, after Redis lost its data, that a hold passed among this client's
    tasks has a greater token than a new holder in another process: the passed hold is lost, and
    the resource refuses it.

    Cost, cancellation, times and errors: as for `RLock`.

    Protocol: Redisson's RFencedLock, its counter raised to max(last + 1, server microseconds);
    see Kleppmann, "How to do distributed locking", 2016.
    """

    def __init__(self, context: RedisContext, name: Name) -> None:
        commands = FencedLockCommands(context.options.names.key(name), context.options.idle_ms)
        super().__init__(context, commands, ownership_of(context, name, commands))

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name)


#: Shortest time in seconds for which a waiter in a fair queue counts as alive: it asks at most 20
#: times a second.
_SHORTEST_ALIVE_SECONDS = 0.3


def alive_for(context: RedisContext) -> float:
    """Return the seconds for which a waiter of this client counts as alive in a fair queue."""
    return max(context.options.lease_time, _SHORTEST_ALIVE_SECONDS)


@final
class FairLock(ServerLock):
    """A lock that one task holds at a time, granted in order of arrival across processes.

    Use it instead of `RLock` where the order of arrival matters between processes, or where
    no task may starve. Otherwise prefer `RLock`: it passes the lock to a task of the same process
    without asking Redis, and keeps no queue there.

    The holder is the current asyncio task: it may re-enter, ahead of the queue. With
    `reentrant=False` a second acquire by the holder raises `RuntimeError`.

    Promised: Redis decides the order, over all processes; waiters that give up, are cancelled or
    die do not change the order of the others. A dead waiter is skipped one `lease_time` of its
    client after its last request; a live one keeps its place as long as it waits. A release wakes
    the next waiter only. Everything else is as for `RLock`, exclusion and its limits included.

    Not promised: that a task keeps its place if its turn came while its client could not reach
    Redis for a whole `lease_time` (it is queued again, last); that a dead waiter of Redisson is
    noticed before Redisson's own five minutes; that `try_acquire()` gets a free lock while others
    wait; that it wakes in time, or keeps its order, beside an `RLock` or `FencedLock` of the same
    name. Those exclude it but do not know its queue: use only one kind for a name.

    Cost: one round trip if nobody else wants it, as for `RLock`. Each waiting task has its own
    subscription and its own place in Redis, and proves that it is alive with a small command every
    few seconds, at least three times per `lease_time` of the client. A hold much shorter than that
    costs one more message, which says when it ends; if it expires, only the next waiter asks.

    Cancellation: a cancelled `acquire` leaves the queue and holds nothing; a cancelled
    `release` is carried out. Times are in seconds. For errors see `acquire` and `release`.

    Protocol: Redisson's RFairLock (a list of owners, a sorted set of the times after which
    they count as dead, a channel for each), with its known faults fixed on our side:
    waiters prove that they are alive, a live one is never dropped, and none polls without a pause.
    """

    def __init__(self, context: RedisContext, name: Name, *, reentrant: bool = True) -> None:
        commands = FairLockCommands(context.options.names.key(name), alive_for(context))
        ownership = ownership_of(context, name, commands, passes=False, reentrant=reentrant)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, reentrant=self._ownership.reentrant)
