"""Taking units of a semaphore: at once where nobody waits here, else in line."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, final

from redisson_py import _waiting
from redisson_py._handoff import DISCOURTESY, take_turn
from redisson_py._lease.hold import Hold, lease_end
from redisson_py._loop import Strike, running_loop
from redisson_py._owner import TaskRef
from redisson_py._primitives.context import Mine
from redisson_py._primitives.decorating import P, R, decorate
from redisson_py._primitives.permit import Permit
from redisson_py._primitives.permit_holds import PermitHolds
from redisson_py._primitives.permit_line import PermitAttempt, PermitLine, PermitPlace
from redisson_py._time import Duration, check_lease_time, check_timeout, now
from redisson_py.errors import AcquireTimeoutError

#: Grants in a row that were over before they could be used, after which it is no use to go on.
_STALE_GRANTS = 3


class PermitSource(PermitHolds):
    """Base of the semaphores: what is taken, and the blocks that take it."""

    def _new_attempt(self, units: int, lease_time: float) -> PermitAttempt:
        """Return the question for so many units."""
        owner = self._context.owners.new_owner()
        return PermitAttempt(self._context, self, owner, units, lease_time)

    @abstractmethod
    def _holds(
        self, attempt: PermitAttempt, ends_at: float, watched: bool, task: TaskRef
    ) -> list[Hold]:
        """Return the holds that an attempt was granted."""

    async def _acquire(
        self, units: int, timeout: float | None, lease_time: float | None
    ) -> list[Permit] | None:
        """Return permits for so many units, or None when time is up."""
        context = self._context
        context.check()
        once = timeout == 0
        deadline = None if timeout is None else running_loop().time() + timeout
        mine = context.owners.of_current_task()
        stream = context.executor.router.stream_for(self._key)
        if stream.full:
            await stream.room()
        stale_grants = 0
        while True:
            holds = await self._new_holds(mine, units, deadline, once, lease_time)
            if holds is None:
                return None
            present = now()
            if all(present < hold.ends_at and hold.state == "held" for hold in holds):
                context.describe(present)
                return [self._take(hold, mine, lease_time, present) for hold in holds]
            # Granted, but over before it could be used.
            for hold in holds:
                self._give_back(hold)
            stale_grants += 1
            if stale_grants == _STALE_GRANTS:
                raise Permit(holds[0], "", None, "raise", holds[0].granted_at)._loss()

    async def _new_holds(
        self,
        mine: Mine,
        units: int,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
    ) -> list[Hold] | None:
        """Get holds that Redis grants, or one that a task here passes on; None: time is up."""
        context = self._context
        lease = context.options.lease_time if lease_time is None else lease_time
        attempt = self._new_attempt(units, lease)
        if once or not self._line.crowded:
            # Several may be on their way: nobody is before them.
            limit = None if once else deadline
            if await _waiting.acquire(attempt, context.bus, limit, once=True) is not None:
                return self._granted(attempt, mine.task, lease_time)
            if once or (deadline is not None and running_loop().time() >= deadline):
                return None
        place = PermitPlace(mine.task, self._passes and lease_time is None, attempt)
        line = self._line
        if line.go_first():
            line.head = place
        elif not await self._stand(line, place, deadline):
            return None
        try:
            granted = await self._ask_as_head(line, attempt, deadline)
            if attempt.passed is not None and (granted or attempt.passed.held):
                return [attempt.passed]
            return self._granted(attempt, mine.task, lease_time) if granted else None
        finally:
            line.asked()

    @staticmethod
    async def _stand(line: PermitLine, place: PermitPlace, deadline: float | None) -> bool:
        """Wait to be the head of the line; return whether it is, or time is up."""
        try:
            return bool(await line.stand(place, deadline))
        except BaseException:
            # The head can be cancelled before it had a chance to look at what it was passed.
            place.attempt.undo()
            raise

    async def _ask_as_head(
        self, line: PermitLine, attempt: PermitAttempt, deadline: float | None
    ) -> bool:
        """Ask for the line, until something is granted or passed; return whether."""
        if attempt.passed is not None and attempt.passed.held:
            return True
        attempt.listen_first(None if line.turn is None else take_turn(line))
        granted = await _waiting.acquire(attempt, attempt, deadline)
        if granted is not None and attempt.turn and not attempt.turn.taken:
            line.no_turn_until = running_loop().time() + DISCOURTESY
        return granted is not None

    def _granted(
        self, attempt: PermitAttempt, task: TaskRef, lease_time: float | None
    ) -> list[Hold]:
        """Keep what an attempt was granted."""
        lease = self._context.options.lease_time if lease_time is None else lease_time
        ends_at = lease_end(attempt.asked_at, lease)
        holds = self._holds(attempt, ends_at, lease_time is None, task)
        for hold in holds:
            hold.doubtful = attempt.doubtful
            self._context.watchdog.add(hold)
        self._made = True
        return holds

    def _take(self, hold: Hold, mine: Mine, lease_time: float | None, present: float) -> Permit:
        """Make a hold that Redis granted, or a task passed, the current task's."""
        hold.task = mine.task
        limit = None if lease_time is None else hold.ends_at
        on_lost = self._context.options.on_lost
        permit = Permit(hold, self._permit_id(hold), limit, on_lost, present)
        hold.leases.append(permit)
        if limit is not None:
            self._context.watchdog.limit(permit, limit)
        self._line.permits[permit.id] = permit
        return permit

    async def _acquire_checked(
        self, units: int, timeout: Duration | None, lease_time: Duration | None
    ) -> list[Permit]:
        """Return permits for so many units, or raise."""
        seconds = check_timeout(timeout)
        lease = None if lease_time is None else check_lease_time(lease_time)
        permits = await self._acquire(units, seconds, lease)
        if permits is None:
            raise AcquireTimeoutError(
                f"{self.kind} {self._name!r} had not {units} free within {seconds or 0:g} s"
            )
        return permits

    async def _try_acquire_checked(
        self, units: int, timeout: Duration | None, lease_time: Duration | None
    ) -> list[Permit] | None:
        """Return permits for so many units, or None."""
        seconds = check_timeout(timeout)
        lease = None if lease_time is None else check_lease_time(lease_time)
        try:
            return await self._acquire(units, seconds, lease)
        except AcquireTimeoutError:
            return None

    async def __aenter__(self) -> Permit:
        permits = await self._acquire(1, None, None)
        assert permits is not None
        (permit,) = permits
        permit._strike = Strike()
        self._context.owners.of_current_task().entered.append(permit)
        return permit

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered = self._context.owners.of_current_task().entered
        for permit in reversed(entered):
            if permit._hold.resource._hold_key == self._hold_key:
                entered.remove(permit)
                await permit._leave(error)
                return


@final
class PermitBlock:
    """A block that has units of a semaphore with options of its own; used once at a time."""

    def __init__(
        self,
        semaphore: PermitSource,
        units: int,
        timeout: Duration | None,
        lease_time: Duration | None,
    ) -> None:
        self._semaphore = semaphore
        self._units = units
        self._timeout = timeout
        self._lease_time = lease_time
        self._permit: Permit | None = None

    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with the units held around every call, each time with these options.

        The semaphore's name is made from the arguments of the call, as for `@semaphore`.

        Raises:
            TypeError: `func` is no `async def`.
            ValueError: A field names no parameter, or the name is no format string.
        """
        semaphore, options = self._semaphore, (self._units, self._timeout, self._lease_time)
        return decorate(
            semaphore._names, func, lambda fill: PermitBlock(semaphore._filled(fill), *options)
        )

    async def __aenter__(self) -> Permit:
        if self._permit is not None:
            raise RuntimeError("this block is in use; call hold() for another one")
        (permit,) = await self._semaphore._acquire_checked(
            self._units, self._timeout, self._lease_time
        )
        permit._enter()
        self._permit = permit
        return permit

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        permit, self._permit = self._permit, None
        if permit is not None:
            await permit._leave(error)
