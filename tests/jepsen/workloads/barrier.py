"""W9: all tasks of all workers meet at a barrier, generation after generation.

A barrier that breaks (a party was killed, or came too late) is left for one of another name: the
board says which. So the generations of each name are counted from 0, by each party for itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

_PROCESSES, _TASKS = 4, 2
_LONGEST = 2.0


@dataclass
class _Place:
    """Where a task is: at which barrier, and how often it was released there."""

    obj: str = ""
    generation: int = 0


_place: ContextVar[_Place | None] = ContextVar("place", default=None)


async def _section(worker: Worker) -> None:
    place = _place.get()
    if place is None:
        _place.set(place := _Place())
    if not place.obj:
        number = await worker.resource.tell("join", "barrier", worker.handle)
        place.obj, place.generation = f"barrier-{number}", 0
    barrier = worker.client.get_barrier(place.obj, _PROCESSES * _TASKS)
    obj, place.obj = place.obj, ""
    # Whatever comes out of it, but the release, this party goes to the next barrier.
    with worker.recorded("arrive", obj, worker.section(), n=place.generation) as result:
        # Its arrival may be what broke the barrier: never `fail`.
        result["out"] = "info"
        result.update(value=await barrier.wait(timeout=_LONGEST), out="ok")
    place.obj, place.generation = obj, place.generation + 1


BARRIER = Workload(
    "barrier",
    "W9: eight parties meet, generation after generation; a broken barrier is left for another",
    _section,
    checkers=("barrier", *OF_LOCKS[1:]),
    objects=("barrier",),
    processes=_PROCESSES,
    tasks=_TASKS,
    facts=Facts(parties={"barrier": _PROCESSES * _TASKS}),
)
