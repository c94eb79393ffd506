"""What the tasks of one client hold of one lock: acquiring, entering again, releasing, looking."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from redisson_py import _keys
from redisson_py._commands.lock import LockCommands
from redisson_py._commands.replies import Granted
from redisson_py._engine import waiting
from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.hold import Hold, Reason, lease_end
from redisson_py._engine.lease import Lease, lost_error
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.ownership import TOMBSTONE_MS, Ownership
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.waiting import Turn
from redisson_py._keys import Name
from redisson_py._loop import Task, current_task
from redisson_py._owner import reference
from redisson_py._time import now
from redisson_py.errors import ClientClosedError, LeaseLostError, NotHeldError

if TYPE_CHECKING:
    from redisson_py._statistics import PrimitiveStatistics

#: Grants in a row that were over before they could be used, after which it is no use to go on.
STALE_GRANTS = 3


class TaskOwnership(Ownership):
    """What the tasks of one client hold of one lock.

    Args:
        context: The parts of the client.
        name: The name, as it was given.
        commands: What this kind of lock asks Redis.
        passes: Tasks wait in a local queue, and holds are passed among them.
        reentrant: A task may acquire it again.
    """

    commands: LockCommands  # type: ignore[mutable-override]

    def __init__(
        self,
        context: Context,
        name: Name,
        commands: LockCommands,
        *,
        passes: bool = True,
        reentrant: bool = True,
    ) -> None:
        registry = context.registry
        # A hold can only be passed to a task that wants the same: fenced to fenced.
        self.waiting_key = commands.kind.encode() + b":" + commands.key
        queue: LocalQueue[Hold] | None = None
        if passes:
            queue = registry.queue(self.waiting_key, LocalQueue)
        super().__init__(context, name, commands, queue)
        self.holds: TaskHolds[Hold] = registry.task_holds(commands.hold_key)
        self.reentrant = reentrant
        #: The holds of the read side, where this is the write side: they share owners.
        self.reads: TaskHolds[Hold] | None = None
        self.reads_waiting_key = b""
        #: The holds of the write side, where this is the read side.
        self.writes: TaskHolds[Hold] | None = None

    # Acquiring.

    async def acquire(
        self,
        task: Task,
        deadline: float | None = None,
        once: bool = False,
        lease_time: float | None = None,
    ) -> Lease | None:
        """Return a lease, or None when the deadline has passed (or it is busy, with `once`)."""
        context = self.context
        context.check()
        held = self.holds.get(reference(task))
        if held is not None and held.state == "held" and self.can_enter_again(held):
            return await self.reenter(held, None if once else deadline, lease_time)
        if self.reads is not None:
            self._refuse_upgrade(task)
        stream = context.executor.router.stream_for(self.commands.key)
        if stream.full:
            await stream.room()
        stale_grants = 0
        while True:
            hold = await self._new_hold(task, deadline, once, lease_time)
            if hold is None:
                return None
            present = now()
            if present < hold.ends_at and hold.state == "held":
                return self.take(hold, task, lease_time, present)
            # Granted, but over before it could be used.
            self.give_back(hold)
            stale_grants += 1
            if stale_grants == STALE_GRANTS:
                raise self.loss(hold)

    def can_enter_again(self, hold: Hold) -> bool:
        """Return whether the task of a hold can acquire it again.

        Raises:
            RuntimeError: It holds it, and the lock is not reentrant.
        """
        if not hold.count:
            return False
        if not self.reentrant:
            raise RuntimeError(f"{self!r} is held by this task already")
        return True

    @property
    def _readers_wait(self) -> bool:
        """Whether tasks of this client wait to read, where this is the write side."""
        return self.reads is not None and self.context.waiters[self.reads_waiting_key] > 0

    def _refuse_upgrade(self, task: Task) -> None:
        """A reader that waits for all readers to leave waits for itself."""
        assert self.reads is not None
        read = self.reads.of(task)
        if read is not None and read.state == "held" and read.live:
            raise RuntimeError(
                f"this task reads {self.name!r} and would wait for itself if it asked to write;"
                " release the read lock first, or take the write lock before reading"
            )

    async def _new_hold(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None
    ) -> Hold | None:
        """Get a hold that Redis grants, or a task here passes on; None when time is up."""
        queue, turn, began_at = self.queue, None, None
        if once:
            if queue is not None and (queue.is_ahead or self._readers_wait):
                # Busy, but only Redis can say so: if it does not answer, that is the answer.
                await self.context.executor.ask(self.commands.key, "EXISTS", self.commands.key)
                return None
        elif queue is None:
            self.context.waiters[self.waiting_key] += 1
        elif not queue.go_first():
            began_at = now()
            passed = await queue.wait(Waiter(reference(task), lease_time is None), deadline)
            if passed is not True:
                return passed or None
        parent, hold = None, None
        try:
            if not once and queue is not None and queue.turn is not None:
                turn = queue.take_turn()
            request = self.new_request(task, lease_time, turn, once=once, deadline=deadline)
            if began_at is not None and queue is not None:
                request.heard_busy = queue.busy_at >= began_at
            parent = request.parent
            if parent is not None:
                parent.count_read(1)
            limit = None if once else deadline
            answer = await waiting.acquire(request, self.context.bus, limit, once=once)
            if type(answer) is Granted:
                hold = self.granted(request, task, lease_time, answer)
                if turn is not None and queue is not None and not turn.taken:
                    queue.turn_not_taken()
            return hold
        finally:
            if parent is not None and hold is None:
                parent.count_read(-1)
            if not once and queue is not None:
                queue.asked()
            elif not once:
                self.context.stopped_waiting(self.waiting_key)

    def new_request(
        self,
        task: Task,
        lease_time: float | None,
        turn: Turn | None = None,
        *,
        once: bool,
        deadline: float | None,
    ) -> AcquireRequest:
        """Return the request for a new hold of a task."""
        if self.reads is not None:
            self._refuse_upgrade(task)
        owners, options = self.context.owners, self.context.options
        lease = options.lease_time if lease_time is None else lease_time
        parent = None if self.writes is None else self._write_hold(task)
        if parent is None:
            owner = owners.new_owner()
        else:
            owner = parent.owner
            if not parent.renewed:
                lease = min(lease, max(0.001, parent.lease_until - now()))
        request = AcquireRequest(
            self, owner, 1, lease, turn, once=once, deadline=deadline, parent=parent
        )
        if parent is not None:
            # Late duplicates of earlier reads under this owner must not be taken for this one.
            request.version = owners.new_number()
            request.version_ms = TOMBSTONE_MS if parent.unsettled else 0
        return request

    def _write_hold(self, task: Task) -> Hold | None:
        """Return the write hold under whose owner a task reads, if it has one."""
        assert self.writes is not None
        write = self.writes.of(task)
        if write is None or write.state != "held" or not write.live:
            return None
        return write

    def granted(
        self, request: AcquireRequest, task: Task, lease_time: float | None, answer: Granted
    ) -> Hold:
        """Keep the hold that a request was granted."""
        owner = request.owner
        hold = Hold(
            self,
            owner,
            request.field,
            reference(task),
            request.sent_at,
            request.lease_time,
            lease_time is None,
            uncertain=request.uncertain,
            parent=request.parent,
        )
        if answer.token is not None:
            hold.bring_tokens(answer.token, self.commands.tokens)
        if self.queue is not None:
            self.queue.hold = hold
        return hold

    def take(self, hold: Hold, task: Task, lease_time: float | None, present: float) -> Lease:
        """Make a hold that Redis granted, or a task passed, the current task's."""
        # As `TaskHolds.put`, which would be one call more for every acquisition.
        holds = self.holds
        key = reference(task, holds.ended)
        if key in holds:
            del holds[key]
        holds[key] = hold
        hold.taken_by(key)
        limit = None
        if lease_time is not None:
            # What a write hold caps may last longer once that is released.
            limit = hold.ends_at if hold.parent is None else lease_end(present, lease_time)
        token = None if hold.next_token is None else hold.take_token()
        lease = Lease(hold, limit, token, present)
        hold.add_lease(lease)
        return lease

    async def reenter(self, hold: Hold, deadline: float | None, lease_time: float | None) -> Lease:
        """Acquire it once more for the task that holds it."""
        options = self.context.options
        lease = options.lease_time if lease_time is None else lease_time
        if hold.capped and hold.parent is not None:
            lease = min(lease, max(0.001, hold.parent.lease_until - now()))
        target, version, keep = hold.begin_reentry()
        request = AcquireRequest(
            self, hold.owner, target, lease, once=True, deadline=deadline, reentry=hold
        )
        request.version, request.version_ms = version, TOMBSTONE_MS if keep else 0
        try:
            answer = await waiting.acquire(request, self.context.bus, deadline, once=True)
        except BaseException:
            unsure = request.uncertain or request.undone
            hold.end_reentry(unsure)
            if hold.state == "held" and not hold.count:
                # Its last lease was released meanwhile, and nobody else will give it back.
                self.give_back(hold)
            elif hold.state == "held" and unsure:
                self.lower(hold)
            raise
        hold.end_reentry(request.uncertain)
        if not isinstance(answer, Granted) or hold.state != "held":
            if isinstance(answer, Granted):
                # Lost while the answer was on its way: nobody is left who would release it.
                self.undo_late(hold)
            self.context.watchdog.lose(hold, "taken")
            self.forget(hold)
            raise self.loss(hold)
        hold.renewal_confirmed(request.sent_at, lease)
        limit = None if lease_time is None else lease_end(request.sent_at, lease_time)
        again = Lease(hold, limit, hold.token, now())
        hold.add_lease(again)
        return again

    def loss(self, hold: Hold) -> LeaseLostError:
        """Return the error that tells of the loss of a hold without a lease."""
        return lost_error(self, hold.owner, now() - hold.granted_at, hold.reason)

    # Releasing.

    async def release_newest(self) -> None:
        """Give back the newest hold of the current task.

        Raises:
            NotHeldError: It has none.
            LeaseLostError: It had one and lost it; said once.
        """
        self.context.check()
        hold = self.holds.of(current_task())
        leases = [] if hold is None else hold.known_leases()
        if not leases:
            raise NotHeldError(f"{self!r} is not held by the current task")
        await self.release(leases[-1])

    def acquired_since(self, lease: Lease, task: Task) -> Lease | None:
        """Return the newest lease of a task that is younger than `lease` and in no block."""
        hold = self.holds.of(task)
        for newer in [] if hold is None else reversed(hold.known_leases()):
            if newer._block is None and newer._granted_at > lease._granted_at:
                return newer
        return None

    def forget(self, hold: Hold) -> None:
        """A hold leaves its task."""
        holds = self.holds
        if holds.get(hold.task) is hold:
            del holds[hold.task]

    def over(self, hold: Hold) -> None:
        """A hold is over: what was read under its owner may last longer than it from now on."""
        if hold.reads and self.reads is not None:
            read = self.reads.get(hold.task)
            if read is not None and read.parent is hold:
                with suppress(ClientClosedError):
                    read.ownership.set_needed_lease(read)

    # Looking.

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        self.context.check()
        key = self.commands.key
        return bool(await self.context.executor.ask(key, "EXISTS", key))

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as Redis sees it."""
        self.context.check()
        hold = self.holds.of(current_task())
        if hold is None or hold.state != "held":
            return 0
        key = self.commands.key
        return int(await self.context.executor.ask(key, "HGET", key, hold.field) or 0)

    async def remaining(self) -> float | None:
        """Return the seconds left on the server; None when it is free, infinity without expiry."""
        self.context.check()
        key = self.commands.key
        left = await self.context.executor.ask(key, "PTTL", key)
        if left == -2:
            return None
        return float("inf") if left == -1 else left / 1000

    async def force_release(self) -> bool:
        """Free it whoever holds it; return whether anybody did."""
        context, commands = self.context, self.commands
        context.check()
        receipt = b"redisson_py:receipt:" + secrets.token_hex(16).encode()
        args = commands.force_release(_keys.suffixed(commands.key, receipt))
        call = context.executor.start(commands.force_release_script, commands.key, args)
        freed = bool(await context.executor.answer(call))
        for holds in (self.holds, self.reads):
            # What the writer itself reads goes with it.
            for hold in [] if holds is None else list(holds.values()):
                if hold.state != "held":
                    continue
                # A repetition answers for the first run: what was granted since is in force.
                sure = freed and not call.uncertain and holds is self.holds
                if sure or not await self._is_there(hold):
                    self._force_out(hold, "forced" if freed else "taken")
        return freed

    def _force_out(self, hold: Hold, reason: Reason) -> None:
        """A hold was released by force, and with it what its task reads under it."""
        read = None if self.reads is None else self.reads.get(hold.task)
        if read is not None and read.parent is hold:
            self.context.watchdog.lose(read, reason)
        self.context.watchdog.lose(hold, reason)

    async def _is_there(self, hold: Hold) -> bool:
        key = self.commands.key
        return bool(await self.context.executor.ask(key, "HEXISTS", key, hold.field))

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name."""
        from redisson_py._statistics import PrimitiveStatistics

        queue = self.queue
        return PrimitiveStatistics(
            waiters=self.context.waiters[self.waiting_key] + (queue.waiting if queue else 0),
            held_leases=sum(len(hold.live) for hold in self.all_holds()),
        )

    def all_holds(self) -> list[Hold]:
        """Return what tasks of this client hold."""
        return [hold for hold in self.holds.values() if hold.state == "held"]
