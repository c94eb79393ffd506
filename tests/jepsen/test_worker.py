"""A worker runs in each manner, obeys its commands, and records what it does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py.testing import running_replicas, running_server
from tests.jepsen.checkers.endings import no_deadlock
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.field import WorkerProcess
from tests.jepsen.history import Recorder, read_history
from tests.jepsen.resource import Resource
from tests.jepsen.worker import Manner, WorkerSpec
from tests.jepsen.workloads import WORKLOADS
from tests.support.waiting import until


@asynccontextmanager
async def started(folder: Path, name: str, mode: str = "asyncio") -> AsyncIterator[WorkerProcess]:
    """Run a worker beside a server and a resource; it has ended when the block is left."""
    workload = WORKLOADS[name]
    resource = Resource(Recorder(folder, "resource"))
    port = await asyncio.start_server(resource.serve, "127.0.0.1", 0)
    async with port, AsyncExitStack() as stack:
        server: Any = await stack.enter_async_context(
            running_replicas() if workload.topology == "replicas" else running_server()
        )
        spec = WorkerSpec.of(
            workload,
            "w1",
            folder,
            urls=[server.url],
            resource=port.sockets[0].getsockname()[1],
            settings={**workload.facts.settings, "mode": mode},
        )
        worker = WorkerProcess(spec)
        await worker.start()
        try:
            yield worker
            await worker.stop(30)
        finally:
            await worker.kill()


def finished(folder: Path, op: str) -> int:
    """Return how many operations were successful."""
    return sum(each.out == "ok" for each in read_history(folder).of(op))


@pytest.mark.parametrize("mode", ["asyncio", "uvloop", "threads"])
async def test_it_blocks_and_cancels_when_asked_to(tmp_path: Path, mode: str) -> None:
    async with started(tmp_path, "mutex", mode) as worker:
        await until(lambda: finished(tmp_path, "release") > 10)
        worker.tell("block 0.05")
        worker.tell("cancel 2")
        await until(lambda: finished(tmp_path, "blocked") == 1)
        enough = finished(tmp_path, "release") + 10
        await until(lambda: finished(tmp_path, "release") > enough)
    history = read_history(tmp_path)
    (blocked,) = history.of("blocked")
    assert blocked.end - blocked.t0 >= 50_000_000
    # Nothing can cancel a thread.
    assert len(history.of("cancelled")) == (0 if mode == "threads" else 2)
    assert worker.failure == ""
    assert worker.said is not None
    assert worker.said["mode"] == mode
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


@pytest.mark.parametrize("name", [name for name in WORKLOADS if WORKLOADS[name].servers == 1])
async def test_each_workload_works(tmp_path: Path, name: str) -> None:
    # Alone, a party of a barrier waits for others that never come.
    done = {"latch": "await", "barrier": "began"}.get(name, "release")
    async with started(tmp_path, name) as worker:
        await until(lambda: finished(tmp_path, done) > (0 if name == "barrier" else 3))
    history = read_history(tmp_path)
    assert worker.failure == ""
    assert history.of("unexpected") == []
    (began,) = history.of("began")
    assert began.value["older"] is (name == "mixed")


def test_seeds_choose_each_manner() -> None:
    def manner(seed: int, threads: bool, source: str = "") -> Manner:
        spec = WorkerSpec.of(WORKLOADS["mutex"], "w1", Path(), seed=seed, source=source)
        return Manner.of(spec, threads)

    chosen = {(each.mode, each.on_lost) for each in (manner(n, True) for n in range(100))}
    tasks = {(mode, lost) for mode in ("asyncio", "uvloop") for lost in ("cancel", "raise")}
    assert chosen == {*tasks, ("threads", "raise")}
    assert all(manner(n, False).mode != "threads" for n in range(100))
    assert all(manner(n, True, "127.0.0.100").mode != "threads" for n in range(100))


async def test_a_worker_that_ended_by_itself_is_noticed(tmp_path: Path) -> None:
    async with started(tmp_path, "mutex") as worker:
        os.kill(worker.process.pid, signal.SIGABRT)
        await worker.process.wait()
        await worker.kill()
    assert "ended by itself" in worker.failure


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("lost lock 'plain-1': expired\n", False),
        ("Future exception was never retrieved\n", True),
        ("Traceback (most recent call last):\n", True),
    ],
)
def test_what_python_logged_is_noticed(tmp_path: Path, said: str, noted: bool) -> None:
    (tmp_path / "w1.log").write_text(said, "utf-8")
    worker = WorkerProcess(WorkerSpec.of(WORKLOADS["mutex"], "w1", tmp_path))
    worker.look_at_log()
    assert bool(worker.failure) is noted
