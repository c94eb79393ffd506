"""A number under an election, whose leaders publish values that others look at and follow."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from tests.jepsen.checkers.leaders import value_of
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.locks import Arrival
from tests.jepsen.workloads.workload import OF_LOCKS, Workload

if TYPE_CHECKING:
    # An older version has neither.
    from redisson_py import Election, Leader

#: The most values that a leader publishes after its first, and states that an observer waits for.
_MOST = 3


def _election_of(worker: Worker, obj: str) -> Election:
    return worker.client.get_election(obj)


async def _look(worker: Worker, obj: str, rid: str) -> None:
    """Ask who leads."""
    with worker.recorded("look", obj, rid) as result:
        result.update(_seen(await _election_of(worker, obj).leader()))


def _seen(leader: Leader | None) -> dict[str, Any]:
    return {} if leader is None else {"fence": leader.token, "value": leader.text}


async def _lead(worker: Worker, use: Use, timeout: float) -> None:
    """Lead, add one to the number, and publish some values, each looked at."""
    election = _election_of(worker, use.obj)
    with use:
        await use.ask()
        async with (
            election.campaign(value_of(use.rid, 0), timeout=timeout) as leadership,
            use.held(leadership),
        ):
            await use.add_one(leadership)
            for number in range(worker.chance.randint(0, _MOST)):
                value = value_of(use.rid, number + 1)
                with use.recorded("proclaim", value=value, fence=leadership.token):
                    await leadership.proclaim(value)
                await _look(worker, use.obj, use.rid)
                use.check(leadership)


async def _observe(worker: Worker, obj: str) -> None:
    """Follow the leaders for a while."""
    rid = worker.section()
    async with aclosing(_election_of(worker, obj).observe()) as states:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * worker.lease_time):
                for _ in range(worker.chance.randint(1, _MOST)):
                    facts = _seen(await anext(states))
                    worker.record.note("seen", obj, worker.handle, rid=rid, **facts)


async def _take_part(worker: Worker) -> None:
    obj = worker.chance.choice(worker.spec.objects)
    match worker.chance.randrange(4):
        case 0 if not worker.threaded:
            await _observe(worker, obj)
        case 1:
            await _look(worker, obj, worker.section())
        case _:
            await _lead(worker, Arrival(worker, (obj,), {}), worker.timeout())


async def _last(worker: Worker, obj: str) -> None:
    await _lead(worker, worker.use(obj), math.inf)


ELECTION = Workload(
    "election",
    "W21: a number that leaders write; the resource checks tokens, others look at their values",
    _take_part,
    checkers=(
        *(*OF_LOCKS, "mutual exclusion", "referee", "fencing", "fifo", "loss detection"),
        "leaders",
    ),
    objects=("election-1", "election-2"),
    tasks=4,
    last=_last,
)
