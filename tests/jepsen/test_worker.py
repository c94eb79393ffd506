"""A worker runs in each manner, obeys its commands, and records what it does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from redisson_py import Redisson
from redisson_py.testing import running_replicas, running_server
from tests.jepsen.checkers.endings import no_deadlock
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.field import WorkerProcess
from tests.jepsen.history import History, Recorder, read_history
from tests.jepsen.resource import Resource
from tests.jepsen.threads import drive
from tests.jepsen.worker import Manner, WorkerSpec
from tests.jepsen.workloads import WORKLOADS
from tests.support.waiting import until


@asynccontextmanager
async def servers(topology: str) -> AsyncIterator[str]:
    """Run the servers that a workload needs; yield the URL."""
    if topology == "replicas":
        async with running_replicas(replicas=1) as replicas:
            yield replicas.url
    else:
        async with running_server() as server:
            yield server.url


@asynccontextmanager
async def started(folder: Path, workload: str, mode: str) -> AsyncIterator[WorkerProcess]:
    """Run a worker beside a server and a resource; it has ended when the block is left."""
    resource = Resource(Recorder(folder, "resource"))
    port = await asyncio.start_server(resource.serve, "127.0.0.1", 0)
    chosen = WORKLOADS[workload]
    async with servers(chosen.topology) as url, port:
        spec = WorkerSpec.of(
            chosen,
            "w1",
            folder,
            urls=[url],
            resource=port.sockets[0].getsockname()[1],
            settings={**chosen.facts.settings, "mode": mode},
        )
        worker = WorkerProcess(spec)
        await worker.start()
        try:
            yield worker
            await worker.stop(30)
        finally:
            await worker.kill()
    assert worker.trouble == ""


def finished(history: History, op: str, obj: str = "") -> int:
    """Return how many operations were successful."""
    return sum(1 for each in history.of(op) if each.out == "ok" and obj in each.obj)


@pytest.mark.parametrize("mode", ["asyncio", "uvloop", "threads"])
async def test_it_blocks_and_cancels_when_told_to(tmp_path: Path, mode: str) -> None:
    async with started(tmp_path, "mutex", mode) as worker:
        await until(lambda: finished(read_history(tmp_path), "release") > 10)
        worker.tell("block 0.05")
        worker.tell("cancel 2")
        await until(lambda: finished(read_history(tmp_path), "blocked") == 1)
        enough = finished(read_history(tmp_path), "release") + 10
        await until(lambda: finished(read_history(tmp_path), "release") > enough)
    history = read_history(tmp_path)
    (blocked,) = history.of("blocked")
    assert blocked.end - blocked.t0 >= 50_000_000
    # Nothing can cancel a thread.
    assert len(history.of("cancelled")) == (0 if mode == "threads" else 2)
    assert worker.said is not None
    assert worker.said["mode"] == mode
    assert history.of("unexpected") == []
    assert [op.value for op in history.of("left")] == [[0, 0], 0]


@pytest.mark.parametrize("mode", ["asyncio", "threads"])
async def test_its_last_visits_have_no_timeout(tmp_path: Path, mode: str) -> None:
    def waits() -> bool:
        acquires = read_history(tmp_path).by_object("acquire")["plain-1"]
        return any(op.handle == "w1.farewell" and op.t1 is None for op in acquires)

    async with started(tmp_path, "mutex", mode) as worker:
        async with Redisson.from_url(worker.spec.urls[0]) as client:
            async with client.get_lock("plain-1"):
                await until(lambda: read_history(tmp_path).by_object("acquire").get("plain-1"), 30)
                worker.tell("stop")
                await until(waits, 30)
                # If nobody ever released it, this is what the checker would say.
                verdict = no_deadlock(read_history(tmp_path), Facts())
                assert {each.rule for each in verdict.violations} == {
                    "acquire of plain-1 never ended",
                    "farewell of plain-1 never ended",
                }
    history = read_history(tmp_path)
    assert no_deadlock(history, Facts()).ok
    visited = {op.obj for op in history.of("farewell") if op.out == "ok"}
    assert visited == {"farewell", *worker.spec.objects}


@pytest.mark.skipif("mixed" not in WORKLOADS, reason="this clone has no history")
async def test_an_older_version_of_the_package_runs(tmp_path: Path) -> None:
    async with started(tmp_path, "mixed", "asyncio"):
        await until(lambda: finished(read_history(tmp_path), "release", "fenced") > 3)
    history = read_history(tmp_path)
    (began,) = history.of("began")
    assert began.value["older"]
    assert history.of("unexpected") == []


@pytest.mark.parametrize("name", [name for name in WORKLOADS if WORKLOADS[name].servers == 1])
async def test_each_workload_works(tmp_path: Path, name: str) -> None:
    ends = {"latch": "await"}
    async with started(tmp_path, name, "asyncio"):
        if name == "barrier":
            # Alone it waits for parties that never come.
            await until(lambda: read_history(tmp_path).of("arrive") != [])
        else:
            await until(lambda: finished(read_history(tmp_path), ends.get(name, "release")) > 3)
    assert read_history(tmp_path).of("unexpected") == []


def test_seeds_choose_each_manner() -> None:
    def manner(seed: int, threads: bool, source: str = "") -> Manner:
        spec = WorkerSpec.of(WORKLOADS["mutex"], "w1", Path(), seed=seed, source=source)
        return Manner.of(spec, threads)

    chosen = {(each.mode, each.on_lost) for each in (manner(n, True) for n in range(100))}
    tasks = {(mode, lost) for mode in ("asyncio", "uvloop") for lost in ("cancel", "raise")}
    assert chosen == {*tasks, ("threads", "raise")}
    assert all(manner(n, False).mode != "threads" for n in range(100))
    assert all(manner(n, True, "127.0.0.100").mode != "threads" for n in range(100))
    assert manner(3, True) == manner(3, True)


def test_a_thread_refuses_to_wait_for_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="waited for an event loop"):
        drive(asyncio.sleep(0))


@pytest.mark.parametrize("ended_by_itself", [True, False])
async def test_a_worker_that_died_is_noticed_by_its_killer(
    tmp_path: Path, ended_by_itself: bool
) -> None:
    async with running_server() as server:
        port = await asyncio.start_server(Resource(Recorder(tmp_path, "r")).serve, "127.0.0.1", 0)
        async with port:
            where = port.sockets[0].getsockname()[1]
            worker = WorkerProcess(
                WorkerSpec.of(
                    WORKLOADS["mutex"],
                    "w1",
                    tmp_path,
                    urls=[server.url],
                    resource=where,
                    settings={"mode": "asyncio"},
                )
            )
            await worker.start()
            if ended_by_itself:
                os.kill(worker.process.pid, signal.SIGABRT)
                await worker.process.wait()
            await worker.kill()
            assert ("ended by itself" in worker.trouble) is ended_by_itself


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("", False),
        ("lost lock 'plain-1': expired\n", False),
        ("Future exception was never retrieved\n", True),
        ("Traceback (most recent call last):\n", True),
    ],
)
def test_what_python_logged_is_noticed(tmp_path: Path, said: str, noted: bool) -> None:
    (tmp_path / "w1.log").write_text(said, "utf-8")
    worker = WorkerProcess(WorkerSpec.of(WORKLOADS["mutex"], "w1", tmp_path))
    worker.look_at_log()
    assert bool(worker.trouble) is noted
