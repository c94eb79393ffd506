"""RedLock: one lock on several independent servers, held by a quorum of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self, final

from redisson_py import _waiting
from redisson_py._handoff import DISCOURTESY, Line, Place
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._primitives.context import Mine
from redisson_py._primitives.fair_lock import FairLock
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.joint import STALE_GRANTS, JointLock, database_of, loss
from redisson_py._primitives.joint_hold import JointHold, JointLease, end_of, move
from redisson_py._primitives.lock import RLock
from redisson_py._primitives.lock_like import LockLike
from redisson_py._primitives.rounds import Rounds, answer_time
from redisson_py._primitives.together import Together
from redisson_py.errors import QuorumError


@final
class RedLock(JointLock):
    """A lock on several independent servers that is held once a quorum of them granted it.

    Use it instead of `RLock` where the lock must survive the loss of a server, and a failover
    that forgets writes must not give it to two: `RedLock(a.get_lock("k"), b.get_lock("k"),
    c.get_lock("k"))` with clients of three to five servers that share nothing and do not
    replicate each other. A quorum is more than half of them.

    Promised: at most one holder, as long as fewer than a quorum of the servers forget what
    they granted, and clocks run at nearly the same speed. It is had while a quorum of the
    servers works: all are asked at once, nobody waits for those beyond a quorum, and one that
    is dead or silent is left out until it answers again. `lease.remaining` counts from before
    the first question, less the drift allowance; granted later than that is not granted. Each
    member is renewed by its own client, and when fewer than a quorum are left the lock is
    lost. What was not granted, or is given up, is given back on every server, at once or as
    soon as it answers. Tasks of one client are served in the order they came; processes take
    turns.

    Not promised: safety when servers restart without their data within a lease (let them
    stay down for that long), when their clocks are stepped, or against a holder that was
    paused: "Redlock does not have any facility for generating fencing tokens", and where
    correctness hangs on that, use `FencedLock` and have the resource check its token. A
    server that did not answer when the lock was asked for does not join later. There are no
    semaphores on this principle: it would be unsound.

    Cost: one script a server for an acquire and one for a release, in one round trip each.
    Waiting costs a subscription on each server.

    Errors: `acquire` raises `QuorumError` when its time is up, whose `answers` tell what each
    server said; `try_acquire` returns None then. Servers that do not answer are no error as
    long as there is a quorum of others. Without a timeout, `ConnectionLostError` is raised
    when fewer than a quorum answered for 10 seconds. Errors that servers reply (wrong type,
    out of memory) are raised when they make a quorum impossible.

    Source: "Distributed Locks with Redis" (Redlock), redis.io, with the objections of
    Kleppmann, "How to do distributed locking", 2016. Redisson's RedissonRedLock uses the same
    keys, without a margin for drift.

    Raises:
        TypeError: A member is no lock of one server, or a fair one, whose line is there only.
        ValueError: There is no member, or two are of one client or server.
    """

    kind = "red lock"

    def __init__(self, *locks: HoldLock) -> None:
        for lock in locks:
            if not isinstance(lock, HoldLock):
                raise TypeError(f"a red lock is made of locks, not of {type(lock).__name__}")
            if isinstance(lock, FairLock):
                raise TypeError("a red lock has no use for the order of a fair lock: take an RLock")
        if not locks:
            raise ValueError("a red lock needs at least one lock")
        members = sorted(locks, key=database_of)
        for one, other in itertools.pairwise(members):
            if _server(one) == _server(other):
                raise ValueError(f"{one!r} and {other!r} are on one server")
        super().__init__(members, len(members) // 2 + 1)
        self._locks = members
        # Others bring something to each holder, a token, or leave something with it.
        self._passable = all(isinstance(lock, RLock) for lock in members)

    def _of(self, members: Sequence[LockLike]) -> Self:
        return type(self)(*(member for member in members if isinstance(member, HoldLock)))

    @property
    def _line(self) -> Line:
        return self._context.lines.open(self._line_key)

    # Acquiring.

    async def _acquire(
        self, mine: Mine, deadline: float | None, *, once: bool, lease_time: float | None
    ) -> Lease | None:
        self._context.check()
        outer = self._held_by(mine)
        if outer is not None:
            if outer.pending and outer.late is not None:
                # Soon it is known whether they are ours; asked again, they would be busy.
                soon = answer_time(self._locks, lease_time)
                if deadline is not None and not once:
                    soon = min(soon, deadline - running_loop().time())
                await outer.late.wait(0, soon)
            rounds = self._rounds(lease_time, inner=True, turns=False)
            return self._reentered(outer, await self._ask(rounds, deadline, once))
        stale_grants = 0
        while True:
            hold = await self._new_hold(mine, deadline, once, lease_time)
            if hold.held:
                return self._take(hold, mine)
            # Granted, but over before it could be used.
            self._give_back(hold)
            stale_grants += 1
            if stale_grants == STALE_GRANTS:
                raise loss(self, hold)

    async def _new_hold(
        self, mine: Mine, deadline: float | None, once: bool, lease_time: float | None
    ) -> JointHold:
        """Get a hold that a quorum grants, or a task here passes on."""
        line = self._line
        if not (once or line.go_first()):
            passed = await line.stand(Place(mine.task, lease_time is None), deadline)
            if passed is False:
                first = "not asked: other tasks here came first"
                raise self._no_quorum({database_of(lock): first for lock in self._locks})
            if isinstance(passed, JointHold):
                return self._receive(passed)
        try:
            rounds = self._rounds(lease_time, inner=False, turns=not once)
            parts = await self._ask(rounds, deadline, once)
            if rounds.turn is not None and not rounds.turn.taken:
                until = running_loop().time() + DISCOURTESY
                for lock in self._locks:
                    lock._context.lines.open(lock._line_key).no_turn_until = until
            hold = line.hold = self._hold(parts, lease_time, mine.task)
            rounds.hand_over(hold)
            return hold
        finally:
            if not once:
                line.asked()

    def _rounds(self, lease_time: float | None, *, inner: bool, turns: bool) -> Rounds:
        mines = self._mines()
        return Rounds(self._locks, self._needed, mines, lease_time, inner=inner, turns=turns)

    async def _ask(self, rounds: Rounds, deadline: float | None, once: bool) -> list[Lease]:
        parts = await _waiting.acquire(rounds, rounds, None if once else deadline, once=once)
        if parts is None:
            raise self._no_quorum(rounds.answers)
        return parts

    def _no_quorum(self, answers: dict[str, str]) -> QuorumError:
        told = "; ".join(f"{server}: {answer}" for server, answer in answers.items())
        return QuorumError(
            f"{self.kind} {self.name!r} was not granted by {self._needed} of"
            f" {len(self._locks)} servers in time ({told})",
            answers,
        )

    def _receive(self, hold: JointHold) -> JointHold:
        """Make the parts of a hold that another task passed the current task's."""
        # Also where no part is yet, so that one that joins later finds the task.
        self._mines()
        for part in hold.parts:
            lock = part._hold.resource
            assert isinstance(lock, HoldLock)
            lock._context.owners.of_current_task().holds[lock._hold_key] = part._hold
        return hold

    # Releasing.

    async def _release_last(self, hold: JointHold, lease: JointLease) -> None:
        line = self._line
        if line.places and self._pass_on(line, hold, lease._parts):
            return
        self._leave(hold, line)
        line.releasing = True
        try:
            await super()._release_last(hold, lease)
        finally:
            line.releasing = False
            line.advance()

    def _pass_on(self, line: Line, hold: JointHold, parts: list[Lease]) -> bool:
        """Hand the hold to the next task in line here, if that may be; return whether."""
        inner = [part._hold for part in parts]
        if not self._passable or any(each.count != 1 for each in inner):
            return False
        options = self._context.options
        hold.ends_at = end_of(parts, self._needed)
        hold.doubtful = any(each.doubtful for each in inner)
        if not line.pass_on(hold, options.turn, options.lease_time / 2):
            return False
        for each in inner:
            lock = each.resource
            assert isinstance(lock, HoldLock)
            move(each, lock, hold.task)
        hold.count = 1
        hold.leases.clear()
        hold.add_lease(parts, options.on_lost)
        return True

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: pass it on or release it, without waiting."""
        assert isinstance(hold, JointHold)
        if hold.state != "held" or self._pass_on(self._line, hold, hold.parts):
            return
        self._leave(hold, self._line)
        super()._give_back(hold)
        self._line.advance()

    @staticmethod
    def _leave(hold: Hold, line: Line) -> None:
        if line.hold is hold:
            line.hold = None

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost: whoever waits here must ask the servers."""
        super()._hold_ended(hold)
        line = self._line
        self._leave(hold, line)
        line.advance()

    async def _settle(self, operations: Together[Any], grace: float = 0) -> None:
        await operations.wait(self._needed, grace)


def _server(lock: HoldLock) -> str:
    """Return the address of the server of a lock, whatever its database."""
    return database_of(lock).rpartition("/")[0]
