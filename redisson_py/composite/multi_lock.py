"""MultiLock: several locks, all or nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import final

from redisson_py._engine.hold import Lease, held_of
from redisson_py._engine.local_queue import Waiter
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import is_fresh
from redisson_py._loop import Task, loop_time, sleep
from redisson_py._redis import identity
from redisson_py._time import PUNCTUAL_SECONDS
from redisson_py.composite._distinct import MemberLock, check_distinct, database_names, keys_of
from redisson_py.composite._gather import Gather
from redisson_py.composite._member import (
    NotGrantedError,
    ask,
    extend_all,
    is_ahead,
    is_occupied,
    release_all,
)
from redisson_py.composite._ownership import (
    CompositeAttempt,
    CompositeGrant,
    CompositeLock,
    CompositeOwnership,
    database_of,
    owners_of,
)
from redisson_py.errors import (
    ConnectionLostError,
    LeaseLostError,
    QuorumError,
)
from redisson_py.locks.lock_like import LockLike, ownership_of
from redisson_py.locks.once import Once

#: Seconds after a refusal in which the members are only asked one after another. Asking all at
#: once then would cost other callers more than it saves this one.
_CONTENDED_SECONDS = 0.05

#: How long to wait for a member while holding others, at first, in seconds, before all are given
#: back; each time twice as long as the last, and up to twice as long again at random.
_FIRST_WAIT_SECONDS = 0.25

#: The longest such wait, before the random part. Whoever wants what it holds waits as long, and the
#: member may be held by just those.
_LONGEST_WAIT_SECONDS = 3.0

#: The longest pause in seconds before all are asked for again.
_LONGEST_PAUSE_SECONDS = 0.05


@final
class MultiLock(CompositeLock):
    """Several locks that are held together: all of them, or none.

    Members may be of any kind (read and write sides and RedLocks too), client and store. The task
    that holds the MultiLock holds each member, and may re-enter each one alone. Use it to work on
    several resources at once, such as a transfer between two accounts.

    Promised: no deadlock among MultiLocks, or with others that take several of these locks in
    another order. Members are sorted by name and server. While the MultiLock holds some of them,
    it waits for another only for a limited time, then releases all and starts again after a random
    pause; the limit doubles each time, up to 6 seconds, and from then on it starts with the member
    that was busy. `timeout` covers all members together. Without a lease time each member's client
    renews it, even while the MultiLock waits for later members; with one, the lease starts when all
    are held, and is the same for all. If a member is lost, the MultiLock is lost at once. `release`
    releases all members, even if one fails. A cancelled acquire holds nothing; a cancelled release
    is carried out.

    Not promised: an order among waiters. A MultiLock does not survive the loss of a server; for
    that see `RedLock`. Its leases have no fencing token: re-enter a fenced member inside the
    block to get its token.

    Cost: one script for each member, all in one round trip. If one is busy, the others are
    released, and the members are taken one after another, a round trip each, plus one for all if
    there is a lease time. A release is one script for each member, in one round trip. Servers that
    have a member of the same name are asked for their identity, once per connection.

    Source: resource ordering, Havender, "Avoiding deadlock in multitasking systems", IBM
    Systems Journal 7 (1968). Redisson's RedissonMultiLock uses the same keys, in the order
    they are given.

    Raises:
        TypeError: A member is not a lock.
        ValueError: There is no member, or one is given twice. If two addresses lead to the same
            Redis server, the first acquire raises this.
    """

    _ownership: MultiOwnership  # type: ignore[mutable-override]  # set once

    def __init__(self, *locks: LockLike) -> None:
        members = sorted(_flat(locks), key=_sort_key)
        if not members:
            raise ValueError("a multi lock needs at least one lock")
        super().__init__(MultiOwnership(members))


class MultiOwnership(CompositeOwnership):
    """The holds of this process's tasks on one MultiLock."""

    def __init__(self, members: Sequence[LockLike]) -> None:
        owners = [owner for member in members for owner in owners_of(member)]
        super().__init__("multi lock", members, owners, len(members))
        #: The members, if each is a lock of a single server.
        simple = not any(isinstance(member, CompositeLock) for member in members)
        self.simple: list[TaskOwnership] = owners if simple else []
        self.one_by_one_until: float = 0.0
        #: Members with a key in common: the same lock perhaps, even at different addresses.
        locks = [
            MemberLock(number, member, owner, isinstance(member, CompositeLock))
            for number, member in enumerate(members)
            for owner in owners_of(member)
        ]
        count = Counter(key for _, key in keys_of(locks))
        shared = [lock for lock, key in keys_of(locks) if count[key] > 1]
        self._doubtful = list(dict.fromkeys(shared))
        check_distinct(self._doubtful, {})

    async def attempt(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None
    ) -> CompositeAttempt[MultiOwnership]:
        """Return how a task acquires it; the members are known to be different by then."""
        self.check_clients()
        if self._doubtful:
            await self._identify(deadline, once)
        return _Attempt(self, None, task, deadline, once, lease_time)

    async def _identify(self, deadline: float | None, once: bool) -> None:
        """Learn which servers the members of one name are on, and sort them by that.

        Raises:
            ValueError: Two members are one lock.
        """
        strangers = [
            identity.learn(lock.owner)
            for lock in self._doubtful
            # The servers of a red lock need not all answer.
            if not lock.is_shared and identity.is_stranger(lock.owner)
        ]
        for lock in self._doubtful:
            identity.ask(lock.owner)
        limit = None if once or deadline is None else deadline - loop_time()
        await Gather(strangers).wait(limit=limit)
        databases = {lock.owner: database_names(lock.owner) for lock in self._doubtful}
        check_distinct(self._doubtful, databases)
        self.members: tuple[LockLike, ...] = tuple(
            sorted(self.members, key=lambda member: _sort_key(member, databases))
        )
        if self.simple:
            self.simple = [owners_of(member)[0] for member in self.members]

    async def all(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None, wait: Wait
    ) -> list[Lease] | None:
        """Return a lease of each member, or None if time is up or, with `once`, one is busy."""
        if once:
            for owner in self.owners:
                if is_ahead(owner, task):
                    # It is busy if its server answers; if not, that error is raised.
                    await owner.view.look()
                    return None
        heard_busy_at = 0.0
        if self.simple and (once or self._undisturbed(task)):
            leases = await self._at_once(task, deadline, once, lease_time)
            if once or leases is not None:
                return leases
            heard_busy_at = loop_time()
            self.one_by_one_until = heard_busy_at + _CONTENDED_SECONDS
            wait.start()
        limit = _FIRST_WAIT_SECONDS
        patience = min(owner.context.options.command_timeout for owner in self.owners)
        answered_at = loop_time()
        members: Sequence[LockLike] = self.members
        while True:
            walk = _Walk(members, task, deadline, once, lease_time, heard_busy_at, wait)
            leases = await walk.take(limit * random.uniform(1, 2))
            if leases is not None or once:
                return leases
            if walk.answered:
                answered_at = heard_busy_at = loop_time()
            elif _passed(deadline) or (deadline is None and loop_time() - answered_at >= patience):
                raise _no_answer(walk.error)
            if _passed(deadline):
                return None
            if limit == _LONGEST_WAIT_SECONDS:
                # The queue is longer: keep the place in it. Nothing is held while the first is
                # waited for. Not sooner: in different orders, multi locks hold each other up.
                members = sorted(self.members, key=lambda member: member is not walk.busy)
            limit = min(2 * limit, _LONGEST_WAIT_SECONDS)
            pause = random.uniform(0, _LONGEST_PAUSE_SECONDS)
            if deadline is not None:
                pause = min(pause, deadline - loop_time())
            await sleep(pause)

    def _undisturbed(self, task: Task) -> bool:
        """Whether no other task here, and no head start of another process, comes first."""
        return loop_time() >= self.one_by_one_until and not any(
            is_occupied(owner, task) for owner in self.simple
        )

    async def _at_once(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None
    ) -> list[Lease] | None:
        """Ask for all members in one round trip, without waiting for any to become free."""
        limit = None if once else deadline
        asked = Gather(
            ask(owner, identity.open_way(owner), task, lease_time, limit, {}, fails_fast=once)
            for owner in self.simple
        )
        try:
            await asked.wait()
            for _, error in sorted(asked.errors.items()):
                if not isinstance(error, NotGrantedError):
                    raise error
        except BaseException:
            asked.cancel()
            release_all(list(asked.results.values()))
            raise
        leases = [each for _, each in sorted(asked.results.items())]
        if asked.errors:
            release_all(leases)
            return None
        return leases


class _Attempt(CompositeAttempt[MultiOwnership]):
    """A task's acquisition of a multi lock."""

    async def ask(self, waiter: Waiter | None, wait: Wait) -> CompositeGrant | None:
        """Ask for all members until they are granted, or until time is up."""
        multi, task = self._composite, self.task
        held = multi.held_by(task)
        leases = await multi.all(task, self.deadline, self.once, self.lease_time, wait)
        if leases is None:
            return None
        if held is not None:
            return CompositeGrant(held, leases)
        return CompositeGrant(multi.new_hold(leases, task))


class _Walk:
    """One attempt to take the members in their order.

    Args:
        members: The members.
        task: The task that wants them.
        deadline: Until when it wants to wait, in loop time.
        once: It does not want to wait.
        lease_time: Seconds; None for the watchdog's.
        heard_busy_at: When an earlier attempt of the same caller found a member busy.
        wait: The caller's wait, which begins when it has to wait for a member.

    Attributes:
        answered: A member that it waited for in vain was busy.
        busy: That member.
        error: Why it ended otherwise: a member did not answer.
    """

    def __init__(
        self,
        members: Sequence[LockLike],
        task: Task,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
        heard_busy_at: float,
        wait: Wait,
    ) -> None:
        self._members = members
        self._task = task
        self._deadline = deadline
        self._once = once
        self._lease_time = lease_time
        self._heard_busy_at = heard_busy_at
        self._wait = wait
        self.answered = False
        self.error: Exception | None = None
        self.busy: LockLike | None = None

    async def take(self, wait: float) -> list[Lease] | None:
        """Return a lease of each member, or None if one could not be acquired.

        The watchdog renews the leases acquired so far. Nothing is held during the wait for the
        first member, so only the deadline limits it; later waits are limited to `wait` seconds.
        """
        leases: list[Lease] = []
        alone = len(self._members) == 1
        try:
            for member in self._members:
                lease_time = self._lease_time if alone else None
                lease = await self._take_one(member, lease_time, wait if leases else None)
                if lease is None:
                    self.busy = member if self.answered else None
                    release_all(leases)
                    return None
                leases.append(lease)
            if self._lease_time is not None and not alone:
                await self._set_all(leases, self._lease_time)
        except BaseException:
            release_all(leases)
            raise
        return leases

    async def _take_one(
        self, member: LockLike, lease_time: float | None, wait: float | None
    ) -> Lease | None:
        deadline = self._deadline
        limited = False
        if wait is not None and not self._once:
            limit = loop_time() + wait
            limited = deadline is None or limit < deadline
            deadline = limit if limited else deadline
        try:
            lease = await ownership_of(member).acquire(
                self._task, deadline, self._once, lease_time, outer=self._wait
            )
        except QuorumError as error:
            if not error.quorum_answered:
                self.error = error
                if not limited:
                    raise
            lease = None
        except ConnectionLostError as error:
            lease = None
            if limited:
                self.error = error
            elif not (_passed(deadline) and is_fresh(self._heard_busy_at, deadline)):
                raise
        self.answered = lease is None and self.error is None
        return lease

    async def _set_all(self, leases: Sequence[Lease], lease_time: float) -> None:
        """Have the same lease on all, from now; one that is lost by now is found later."""
        settings = extend_all(held_of(leases), lease_time)
        limit = None if self._deadline is None else self._deadline - loop_time()
        await settings.wait(limit=limit)
        for _, error in sorted(settings.errors.items()):
            if not isinstance(error, LeaseLostError):
                raise error
        if settings.left:
            raise ConnectionLostError("not all members answered in time", maybe_held=True)


def _flat(locks: Sequence[object]) -> Iterator[LockLike]:
    """Yield the locks themselves in place of the MultiLocks made of them."""
    for lock in locks:
        if isinstance(lock, MultiLock):
            yield from lock._members
        elif isinstance(lock, Once):
            raise TypeError(
                f"{lock!r} may be done already, and then it is not held: enter it alone"
            )
        elif isinstance(lock, LockLike):
            yield lock
        else:
            hint = ": pass each lock as an argument" if isinstance(lock, list | tuple) else ""
            raise TypeError(f"a multi lock is made of locks, not of {type(lock).__name__}{hint}")


def _sort_key(
    member: LockLike, databases: Mapping[TaskOwnership, Sequence[str]] | None = None
) -> tuple[bytes, str, str, bytes]:
    """Return by what to sort a member: name, database as far as it is known, and kind."""
    owners = owners_of(member)
    first = owners[0]
    known = (databases or {}).get(first)
    database = database_of(first) if known is None else known[0]
    least = min(owner.commands.key for owner in owners)
    return least, database, first.commands.hold_kind, first.commands.key


def _passed(deadline: float | None) -> bool:
    return deadline is not None and loop_time() >= deadline - PUNCTUAL_SECONDS


def _no_answer(error: Exception | None) -> ConnectionLostError:
    """Return the error to raise when a member did not answer while others were held."""
    if isinstance(error, ConnectionLostError):
        return error
    lost = ConnectionLostError(str(error), maybe_held=False)
    lost.__cause__ = error
    return lost
