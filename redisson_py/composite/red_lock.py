"""RedLock: one lock on several independent servers, held by a quorum of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, final

from redisson_py._engine import waiting
from redisson_py._engine.awaiting import acquiring
from redisson_py._engine.hold import Lease, tell_released
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.wait import Wait
from redisson_py._loop import Task, loop_time
from redisson_py._owner import reference
from redisson_py._redis.identity import Servers
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration
from redisson_py.composite._gather import Gather
from redisson_py.composite._hold import CompositeHold, CompositeLease
from redisson_py.composite._member import is_ahead
from redisson_py.composite._ownership import (
    LOOK_GRACE_SECONDS,
    CompositeAttempt,
    CompositeGrant,
    CompositeLock,
    CompositeOwnership,
    CompositeRelease,
    database_of,
    owners_of,
    server_of,
)
from redisson_py.composite._quorum_rounds import QuorumRounds, answer_time
from redisson_py.errors import ConnectionLostError, QuorumError
from redisson_py.locks.lock import FairLock, RLock, ServerLock


@final
class RedLock(CompositeLock):
    """A lock on several independent servers that is held once a quorum of them granted it.

    Use it instead of `RLock` where the lock must survive the loss of a server, and a failover
    that loses writes must not give it to two holders: `RedLock(a.get_lock("k"), b.get_lock("k"),
    c.get_lock("k"))`, with clients of three to five servers that share nothing and do not
    replicate each other. A quorum is more than half of them.

    Promised: at most one holder, as long as the servers that forget their grant and those that
    did not grant the lock are together fewer than a quorum, and clocks run at nearly the same
    speed. The lock is available while a quorum of the servers responds: all are asked at once, no
    caller waits for more than a quorum, and a dead or unresponsive server is skipped until it
    answers again. `lease.remaining` counts from before the first request, less an allowance for
    clock drift; a quorum reached after that time does not count. Each member's client renews it,
    and the lock is lost when fewer than a quorum are left. A lock that no quorum granted, or that
    is released, is released on every server, at once or as soon as it answers. Tasks of one client
    are served in order of arrival; processes take turns.

    Not promised: safety when servers restart without their data within a lease (keep them down for
    that long), when their clocks are stepped, or against a holder that was paused: "Redlock does
    not have any facility for generating fencing tokens", so where correctness depends on that, use
    `FencedLock` and have the resource check its token. A server that did not answer the acquire
    does not join later. There are no semaphores of this kind, because they would be unsound.

    A cluster counts as one server, whatever its nodes: they are one system and fail together. Use
    several clusters, or combine locks in a cluster with locks on servers outside it.

    Cost: one script per server to acquire and one to release, in one round trip each. Waiting
    costs a subscription on each server. Each server is asked for its identity once per connection,
    so that one server with two addresses does not count twice.

    A cancelled acquire holds nothing; a cancelled release is carried out.

    Errors: after its timeout `acquire` raises `QuorumError`, whose `answers` say what each server
    answered; `try_acquire` returns None if a quorum of servers answered, else it raises
    `QuorumError`. Servers that do not answer are not an error as long as the others are a quorum.
    Without a timeout, `ConnectionLostError` is raised when fewer than a quorum answered for
    `command_timeout`. Error replies (wrong type, out of memory) are raised when they make a quorum
    impossible.

    Source: "Distributed Locks with Redis" (Redlock), redis.io, with the objections of
    Kleppmann, "How to do distributed locking", 2016. Redisson's RedissonRedLock uses the same
    keys, without an allowance for drift.

    Raises:
        TypeError: A member is not a lock of one Redis server, or is a fair lock, whose order
            exists on one server only.
        ValueError: There is no member, or two are of one client or server. If two addresses lead
            to one server, the first acquire that reaches it raises this.
    """

    _ownership: QuorumOwnership  # type: ignore[mutable-override]  # set once

    def __init__(self, *locks: ServerLock) -> None:
        for lock in locks:
            if not isinstance(lock, ServerLock):
                raise TypeError(
                    f"a red lock is made of locks of Redis servers, not of {type(lock).__name__}"
                )
            if isinstance(lock, FairLock):
                raise TypeError("a red lock cannot keep the order of a fair lock: use an RLock")
        if not locks:
            raise ValueError("a red lock needs at least one lock")
        members = sorted(locks, key=server_of)
        for one, other in itertools.pairwise(members):
            if _address(one) == _address(other):
                where = "in one cluster" if _in_cluster(one) else "on one server"
                raise ValueError(f"{one!r} and {other!r} are {where}")
        super().__init__(QuorumOwnership(members))

    @acquiring
    async def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire the lock within `timeout` seconds, or return None if it is busy.

        It is busy only if a quorum of the servers answered. It never overtakes: if tasks of this
        client are waiting, or it is another process's turn, it returns None. Arguments and other
        errors are those of `acquire`.

        Raises:
            QuorumError: Fewer than a quorum of the servers answered.
        """
        try:
            return await self.acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        except QuorumError as error:
            if error.quorum_answered:
                return None
            raise


class QuorumOwnership(CompositeOwnership):
    """The holds of this process's tasks on one RedLock."""

    def __init__(self, members: Sequence[ServerLock]) -> None:
        owners = [owner for member in members for owner in owners_of(member)]
        super().__init__("red lock", members, owners, len(members) // 2 + 1)
        self.queue: LocalQueue[CompositeHold] = self.context.registry.queues[self.kind].get(
            self.hold_key, LocalQueue
        )
        self.servers: Servers = Servers(owners)
        #: How long to wait for a server when there is no lease time.
        self.answer_time: float = answer_time(owners, None)
        #: How long a caller without a timeout waits for a quorum of answers.
        self.patience: float = min(owner.context.options.command_timeout for owner in owners)
        # Other kinds give each holder a token, or keep state with the holder.
        self.passable: bool = all(isinstance(lock, RLock) for lock in members)

    # Acquiring.

    async def attempt(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None
    ) -> CompositeAttempt[QuorumOwnership]:
        """Return how a task acquires it; a task that holds it stands in no queue."""
        self.context.check()
        held = self.held_by(task)
        queue = self.queue if held is None else None
        attempt = _Attempt(self, queue, task, deadline, once, lease_time)
        attempt.held = held
        return attempt

    def fail_together(self, rounds: QuorumRounds) -> None:
        """Fail the waiters without a timeout: too few servers answered the head."""
        self.queue.fail_together(rounds.no_answer)

    def is_ahead(self, task: Task) -> bool:
        """Whether asking once would overtake: tasks here, or other processes' turn at a quorum."""
        ahead = sum(is_ahead(owner, task) for owner in self.owners)
        return self.queue.is_ahead or len(self.owners) - ahead < self.needed

    async def refuse(self) -> None:
        """Raise for a caller behind others: it is busy if a quorum of servers answers."""
        looks = Gather(owner.locked() for owner in self.owners)
        try:
            await self.settle_look(looks)
        finally:
            looks.cancel()
        answers = dict.fromkeys(self.addresses, "not asked: others are ahead")
        for number, error in looks.errors.items():
            answers[self.addresses[number]] = str(error) or "no answer in time"
        raise self.no_quorum(answers, len(looks.results) >= self.needed)

    @property
    def addresses(self) -> list[str]:
        """The addresses of the servers, in the order of the members."""
        return [database_of(owner) for owner in self.owners]

    def no_quorum(self, answers: dict[str, str], quorum_answered: bool) -> QuorumError:
        """Return the error that says what each server answered."""
        listed = "; ".join(f"{server}: {answer}" for server, answer in answers.items())
        return QuorumError(
            f"{self!r}: fewer than {self.needed} of {len(self.owners)} servers granted it in time"
            f" ({listed})",
            answers,
            quorum_answered,
        )

    # Releasing.

    def begin_whole_release(
        self, hold: CompositeHold, lease: CompositeLease, let_go_at: float
    ) -> CompositeRelease | None:
        """Release the whole hold, or pass it to another task here."""
        if self._pass_on(hold):
            tell_released(lease, let_go_at)
            return None
        self.queue.releasing = True
        return super().begin_whole_release(hold, lease, let_go_at)

    def ended(self) -> None:
        """End the release of a whole hold: the waiting tasks may ask."""
        self.queue.releasing = False
        self.queue.advance()

    def _pass_on(self, hold: CompositeHold) -> bool:
        """Pass the hold to the next waiting task if possible; return whether it was passed."""
        options = self.context.options
        return bool(self.queue.waiters) and self.queue.pass_on(
            hold, options.turn, options.lease_time / 2
        )

    def end(self, hold: CompositeHold) -> None:
        """End a hold just before its release is sent."""
        super().end(hold)
        self.queue.released_at = loop_time()
        self._leave_queue(hold)

    def give_back(self, hold: CompositeHold) -> None:
        """Pass on or release a hold that no task wants, without waiting."""
        if hold.state != "held" or self._pass_on(hold):
            return
        super().give_back(hold)
        self.queue.advance()

    def hold_ended(self, hold: CompositeHold) -> None:
        """Handle the loss of a hold: let the waiting tasks ask the servers."""
        super().hold_ended(hold)
        self._leave_queue(hold)
        self.queue.advance()

    def _leave_queue(self, hold: CompositeHold) -> None:
        if self.queue.hold is hold:
            self.queue.hold = None

    def heard_busy(self) -> None:
        """Record that a quorum of servers answered without granting it."""
        self.queue.heard_busy()

    async def settle(self, operations: Gather[Any]) -> None:
        """Wait until a quorum of the members has done what it was asked to do."""
        # An event loop that shuts down ends with this block. Then for all: a connection is closed
        # when it is answered, or given up.
        await operations.wait(None if self.servers.any_outlives else self.needed)

    async def settle_look(self, looks: Gather[Any]) -> None:
        """Wait for the answers of a quorum, and a moment for the others; not long for any."""
        limit = max(self.answer_time, LOOK_GRACE_SECONDS)
        await looks.wait(self.needed, LOOK_GRACE_SECONDS, limit)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters: tasks that wait for it or a member, and its leases."""
        found = super().statistics()
        return PrimitiveStatistics(found.waiters + self.queue.waiting, found.held_leases)


class _Attempt(CompositeAttempt[QuorumOwnership]):
    """A task's acquisition of a red lock.

    Attributes:
        held: The hold that the task enters again, if it has one.
    """

    held: CompositeHold | None = None

    def is_behind(self) -> bool:
        """Return whether asking once would overtake."""
        return self.held is None and self._composite.is_ahead(self.task)

    async def refuse(self) -> None:
        """Raise: it is busy if a quorum of servers answers."""
        await self._composite.refuse()

    def join(self) -> Waiter:
        """Join the queue at its end."""
        waiter = Waiter(reference(self.task), self.lease_time is None)
        return self._composite.queue.join(waiter)

    def probe(self) -> None:
        """Make the servers answer something soon."""
        self._composite.servers.probe()

    async def was_busy(self, waiter: Waiter) -> bool:
        """Raise: its time is up in the queue."""
        red, deadline = self._composite, self.deadline
        assert deadline is not None
        first = "not asked: other tasks of this client are ahead"
        answering = red.servers.answer_at(deadline)
        busy = red.queue.is_busy(waiter) and answering >= red.needed
        raise red.no_quorum(dict.fromkeys(red.addresses, first), busy)

    def passed(self, hold: CompositeHold) -> CompositeGrant:
        """Return what a task here has passed to the caller."""
        return CompositeGrant(hold)

    async def ask(self, waiter: Waiter | None, wait: Wait) -> CompositeGrant:
        """Ask until a quorum grants it; raise when time is up."""
        red, held, once = self._composite, self.held, self.once
        if held is not None and held.pending and held.late is not None:
            # Their answers come soon; if asked again now, they would be busy.
            soon = answer_time(red.owners, self.lease_time)
            if self.deadline is not None and not once:
                soon = min(soon, self.deadline - loop_time())
            await held.late.wait(0, soon)
        inner = held is not None
        rounds = QuorumRounds(red, self.task, self.lease_time, inner=inner, once=once)
        if not (once or inner):
            rounds.quorum_known(red.queue.known_busy_at(waiter))
        try:
            limit = None if once else self.deadline
            leases = await waiting.acquire(rounds, rounds, limit, once=once, wait=wait)
        except ConnectionLostError:
            if not inner:
                red.fail_together(rounds)
            raise
        if leases is None:
            raise red.no_quorum(rounds.answers, rounds.quorum_answered)
        if held is not None:
            return CompositeGrant(held, leases)
        if rounds.head_start is not None and not rounds.head_start.taken:
            for owner in red.owners:
                if owner.queue is not None:
                    owner.queue.head_start_not_taken()
        hold = red.queue.hold = red.new_hold(leases, self.task)
        rounds.hand_over(hold)
        return CompositeGrant(hold)


def _in_cluster(lock: ServerLock) -> bool:
    (owner,) = owners_of(lock)
    return owner.context.options.names.in_cluster


def _address(lock: ServerLock) -> str:
    """Return the address of the server of a lock, whatever its database."""
    return server_of(lock).rpartition("/")[0]
