"""No wake-up is lost on a real server whose connections and scripts are shot down all the time.

Four crews, two of them in processes of their own, fight for a few locks. Fire comes in bursts,
because while it lasts, and while others come and go, whoever missed a wake-up is soon woken by
something else. At the end of each burst nobody begins anything new: those who still wait must
all be served, one by the release of the other, or by the safety poll, which counts as failure.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

import pytest
from redis.asyncio import Redis

from redisson_py._engine.wakeups import Table
from redisson_py._options import check_options
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.soak.crew import CLIENT_NAME, Crew, Report, counting_overslept
from tests.support.waiting import set_safety_poll, until, until_listening

SECTIONS = 3500
BURSTS = 40
BURST = 0.06
SHOT_EVERY = 0.003


@pytest.mark.parametrize("turn", [0, check_options().turn], ids=["no passing", "passing"])
async def test_no_hand_off_under_fire_waits_for_the_safety_poll(
    turn: float, server_url: str, clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    total, fire = Report(), Fire(redis)
    near = [Crew(clients(turn=turn, client_name=CLIENT_NAME)) for _ in range(2)]
    with counting_overslept(total):
        async with far_crews(2, server_url, turn) as far, asyncio.TaskGroup() as group:
            for crew in near:
                group.create_task(crew.work())
            crews: list[Crew | FarCrew] = [*near, *far]
            bursts = 0
            while bursts < BURSTS or sum(crew.finished for crew in crews) < SECTIONS:
                for each in crews:
                    each.go()
                await fire.burst(BURST)
                # The last shots fall while they come to rest.
                resting = [group.create_task(each.rest()) for each in crews]
                await fire.burst(random.uniform(0, 0.01))
                await asyncio.wait(resting)
                bursts += 1
                assert total.overslept == 0
            for crew in near:
                crew.end()
                total.add(crew.report)
            for far_crew in far:
                total.add(await far_crew.end())

    gaps = total.hand_offs()
    measured("hand-offs", f"{len(gaps)}, and {bursts} times all came to rest")
    measured("hand-off", f"{1000 * median(gaps):.2f} ms in the middle, {max(gaps):.3f} s at most")
    measured("waits that the safety poll ended", total.overslept)
    measured("waits cancelled", total.given_up)
    measured("connections", f"{fire.kills} killed, {total.connections} opened")
    measured("script caches flushed", fire.flushes)
    assert min(gaps) >= 0, "two were inside at once"
    assert total.overslept == 0
    assert total.losses == 0


async def test_a_message_that_is_lost_costs_a_safety_poll_and_is_counted(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count above can be other than zero."""
    # Longer than a busy machine takes between the question and the release.
    set_safety_poll(monkeypatch, 1.3)
    monkeypatch.setattr(Table, "message", lambda table, channel, payload: None)
    report = Report()
    with counting_overslept(report):
        holder, waiter = clients(), clients()
        held = await holder.get_lock("k").acquire()
        waiting = asyncio.create_task(waiter.get_lock("k").acquire())
        # The first of the queue looks once more as it begins to listen to all releases.
        await until(lambda: waiter._table.seats == 2)
        await until_listening(waiter)
        await held.release()
        await (await waiting).release()
    # More where a busy machine takes longer between the question and the release.
    assert report.overslept >= 1


class Fire:
    """Shoots at the connections of all crews, and at the server's scripts."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.kills = 0
        self.flushes = 0

    async def burst(self, seconds: float) -> None:
        """Shoot every few milliseconds, for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await self._shoot()
            await asyncio.sleep(SHOT_EVERY)

    async def _shoot(self) -> None:
        match random.randrange(10):
            case 0 | 1:
                await self._redis.script_flush()
                self.flushes += 1
            case 2:
                self.kills += await self._redis.client_kill_filter(_type="pubsub")
            case 3:
                self.kills += await self._redis.client_kill_filter(_type="normal", skipme=True)
            case _:
                known = await self._redis.client_list()
                targets = [each["id"] for each in known if each["name"] == CLIENT_NAME]
                if targets:
                    self.kills += await self._redis.client_kill_filter(_id=random.choice(targets))


class FarCrew:
    """A crew in a process of its own."""

    def __init__(self, process: Process) -> None:
        self.finished = 0
        self._process = process

    def go(self) -> None:
        """See `Crew.go`."""
        self._say("go")

    async def rest(self) -> None:
        """See `Crew.rest`."""
        self._say("rest")
        self.finished = int(await self.line())

    async def end(self) -> Report:
        """Have it end, and return what it did."""
        printed, _ = await self._process.communicate(b"end\n")
        return Report(**json.loads(printed))

    async def line(self) -> str:
        """Return the next thing it says."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    def _say(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())


@asynccontextmanager
async def far_crews(count: int, url: str, turn: float) -> AsyncIterator[list[FarCrew]]:
    """Start crews in processes of their own; what still runs in the end is killed."""
    command = (sys.executable, "-m", "tests.soak.crew", url, str(turn))
    processes: list[Process] = []
    try:
        crews: list[FarCrew] = []
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
            processes.append(process)
            crews.append(FarCrew(process))
        for crew in crews:
            assert await crew.line() == "ready"
        yield crews
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.communicate()
