"""Releases units of a semaphore without naming their permit."""

from __future__ import annotations

from collections.abc import Iterator

from redisson_py._engine.hold import Hold
from redisson_py._engine.partial_release import judge_of_lowered
from redisson_py._engine.releasing import Judge, hear, hear_alone, judge_of_release
from redisson_py._engine.server import Call
from redisson_py._loop import Task
from redisson_py._time import now
from redisson_py.errors import LeaseLostError, NotHeldError, RedissonError
from redisson_py.semaphores._ownership import PermitOwnership
from redisson_py.semaphores.permit import Permit


async def release_units(ownership: PermitOwnership, task: Task, units: int) -> None:
    """Release units acquired outside a block: the task's newest first, then the client's.

    Raises:
        NotHeldError: There are fewer; nothing was given back.
        LeaseLostError: One of them was lost before; the others were given back.
    """
    ownership.context.check()
    chosen: list[tuple[Permit, int]] = []
    left = units
    for permit in _candidates(ownership, task):
        if left <= 0:
            break
        hold = permit._hold
        part = min(left, hold.units)
        chosen.append((permit, part))
        left -= part
    if left > 0:
        raise NotHeldError(
            f"{ownership!r}: cannot release {units}, because this client holds {units - left}"
            " outside of blocks; only add_permits creates permits"
        )
    let_go_at = now()
    begun = [_begin(ownership, permit, part, let_go_at) for permit, part in chosen]
    problem: RedissonError | None = None
    for number, each in enumerate(begun):
        try:
            await _finish(each)
        except RedissonError as error:
            problem = problem or error
        except BaseException:
            for release in begun[number + 1 :]:
                if isinstance(release, tuple):
                    hear_alone(*release)
            raise
    if problem is not None:
        raise problem


def _candidates(ownership: PermitOwnership, task: Task) -> Iterator[Permit]:
    """Yield the permits that a task may give back without naming them, in that order."""
    lost = [permit for permit in ownership.unreported.get(task, ()) if not permit._told]
    held = [
        permit
        for hold in ownership.all_holds()
        for permit in hold.live
        if isinstance(permit, Permit) and permit._block is None
    ]
    mine = [permit for permit in held if _task_of(permit) is task] + lost
    yield from sorted(mine, key=lambda permit: permit._granted_at, reverse=True)
    yield from reversed([permit for permit in held if _task_of(permit) is not task])


def _task_of(permit: Permit) -> Task | None:
    hold = permit._hold
    assert isinstance(hold, Hold)
    return hold.task()


Begun = tuple[Call, Judge] | LeaseLostError | None
"""A release under way and what judges its answer, or the loss before it; None: it was passed on."""


def _begin(ownership: PermitOwnership, permit: Permit, units: int, let_go_at: float) -> Begun:
    """Send the release of units of a permit, or pass them on."""
    hold = permit._hold
    if permit._state == "held" and units < hold.units:
        hold.units_fell(units)
        call = ownership.lower(hold)
        return call, judge_of_lowered(ownership, hold, permit, call, let_go_at)
    permit._settle()
    hold.drop(permit)
    if permit._state == "lost":
        return permit._loss()
    release = ownership.begin_release(hold)
    if release is None:
        permit._tell_released(let_go_at)
        return None
    return release[0], judge_of_release(ownership, hold, permit, release)


async def _finish(begun: Begun) -> None:
    """Wait for the answer to a release; raise if the permit was lost before."""
    if isinstance(begun, tuple):
        await hear(*begun)
    elif begun is not None:
        raise begun
