"""Latches, each with a name of its own, and barriers, generation after generation."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from redisson_py import AcquireTimeoutError
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

_ROLES = "roles"
_LONGEST_AWAIT = 2.0


async def _do_a_role(worker: Worker) -> None:
    """Do what somebody else's latch needs, or make one."""
    role = await worker.resource.tell("take", _ROLES)
    if not role:
        await _make(worker)
        return
    word, obj, count = role.split("/")
    if word == "count":
        await _count_down(worker, obj, 1)
    else:
        await _await(worker, obj, int(count))


async def _make(worker: Worker) -> None:
    """Make a latch, leave its roles to others, and wait until it is open."""
    chance = worker.chance
    count, waiters = chance.randint(1, 6), chance.randint(1, 6)
    obj = f"latch-{worker.section().replace('/', '-')}"
    latch = worker.client.get_latch(obj)
    with worker.recorded("set_count", obj, obj, value=count):
        await latch.try_set_count(count)
    roles = [f"count/{obj}/{count}"] * count + [f"wait/{obj}/{count}"] * waiters
    chance.shuffle(roles)
    await worker.resource.tell("post", _ROLES, *roles)
    try:
        await _await(worker, obj, count)
    except AcquireTimeoutError:
        # A counter was killed: nobody knows whether it counted.
        if left := await latch.count():
            await _count_down(worker, obj, left)
        return
    # They come when it is open.
    late = [f"wait/{obj}/{count}"] * chance.randint(0, 2)
    if late:
        await worker.resource.tell("post", _ROLES, *late)


async def _count_down(worker: Worker, obj: str, units: int) -> None:
    with worker.recorded("count_down", obj, worker.section(), n=units):
        await worker.client.get_latch(obj).count_down(units)


async def _await(worker: Worker, obj: str, count: int) -> None:
    """Wait for a latch; `value` is the count that must be down before."""
    with worker.recorded("await", obj, worker.section(), value=count):
        await worker.client.get_latch(obj).wait(timeout=_LONGEST_AWAIT)


LATCH = Workload(
    "latch",
    "W8: latches with 1 to 6 counters, as many waiters, and late ones; each has a name of its own",
    _do_a_role,
    checkers=("latch", *OF_LOCKS[1:]),
    objects=("latch",),
    tasks=6,
    facts=Facts(lasting=("latch-*",)),
)


_PROCESSES, _TASKS = 4, 2
_LONGEST = 2.0


@dataclass
class _Stage:
    """Where a task is: at which barrier, and how often it was released there."""

    obj: str = ""
    generation: int = 0


_stage: ContextVar[_Stage | None] = ContextVar("place", default=None)


async def _arrive(worker: Worker) -> None:
    """Meet all tasks of all workers at a barrier.

    One that breaks (a party was killed, or came too late) is left for one of another name: the
    board says which. So the generations of each name are counted from 0, by each party for itself.
    """
    stage = _stage.get()
    if stage is None:
        _stage.set(stage := _Stage())
    if not stage.obj:
        number = await worker.resource.tell("join", "barrier", worker.handle)
        stage.obj, stage.generation = f"barrier-{number}", 0
    barrier = worker.client.get_barrier(stage.obj, _PROCESSES * _TASKS)
    obj, stage.obj = stage.obj, ""
    # Whatever comes out of it, but the release, this party goes to the next barrier.
    with worker.recorded("arrive", obj, worker.section(), n=stage.generation) as result:
        # Its arrival may be what broke the barrier: never `fail`.
        result["out"] = "info"
        result.update(value=await barrier.wait(timeout=_LONGEST), out="ok")
    stage.obj, stage.generation = obj, stage.generation + 1


BARRIER = Workload(
    "barrier",
    "W9: eight parties meet, generation after generation; a broken barrier is left for another",
    _arrive,
    checkers=("barrier", *OF_LOCKS[1:]),
    objects=("barrier",),
    processes=_PROCESSES,
    tasks=_TASKS,
    facts=Facts(parties={"barrier": _PROCESSES * _TASKS}),
)
