"""A worker: a process with one client, whose tasks run a workload and record what they do.

Run as `python -m tests.jepsen.worker SPEC`, SPEC being the JSON of a `WorkerSpec`. Standard input
has commands, one a line:

    block SECONDS    block the event loop of the client
    cancel NUMBER    cancel so many of its tasks, chosen at random; each begins anew
    stop             (or the end) let the tasks finish, close the client, print how it ran, end

It may be killed or stopped at any moment. Its seed decides whether it runs on asyncio, on uvloop or
in threads, and what a loss does to a body.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import math
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from redisson_py import Redisson, RedissonError
from tests.jepsen import older
from tests.jepsen.history import Recorder, now, say
from tests.jepsen.resource_client import SharedConnection, ThreadConnections
from tests.jepsen.working import LossListener, Work, Worker, record_sleep

if TYPE_CHECKING:
    from tests.jepsen.workloads.workload import Workload

Mode = Literal["asyncio", "uvloop", "threads"]
#: Visits an object for the last time: see `Workload.last`.
Last = Callable[[Worker, str], Awaitable[None]]


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker is told at its start.

    Attributes:
        name: Its name, and that of its file.
        folder: Where the histories are.
        workload: The name of the workload.
        urls: The servers: one URL for each of its clients (five for a RedLock).
        options: Options of its clients.
        objects: The names of what it uses.
        tasks: How many tasks it has.
        resource: The port of the resource.
        seed: Of its random choices.
        settings: What the workload was given: see `Facts.settings`. A `mode` is not left to chance;
            with `older`, every other worker runs an older version of the package.
        source: The address it connects from; empty for any.
    """

    name: str
    folder: str
    workload: str
    urls: list[str]
    options: dict[str, Any]
    objects: list[str]
    tasks: int
    resource: int
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""

    @classmethod
    def of(cls, workload: Workload, name: str, folder: Path, **facts: Any) -> Self:
        """Return that of a worker that runs a workload, with what is not said by the workload."""
        usual: dict[str, Any] = {
            "urls": [],
            "options": dict(workload.options),
            "objects": list(workload.objects),
            "tasks": workload.tasks,
            "resource": 0,
            "seed": 1,
            "settings": dict(workload.facts.settings),
        }
        return cls(name=name, folder=str(folder), workload=workload.name, **(usual | facts))

    def to_json(self) -> str:
        """Return it as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Manner:
    """How a worker runs.

    Attributes:
        mode: On which loop, or in threads.
        on_lost: What a loss does to a body.
    """

    mode: Mode
    on_lost: Literal["cancel", "raise"]

    @classmethod
    def of(cls, spec: WorkerSpec, threads: bool) -> Self:
        """Choose one by the seed of a worker."""
        chance = random.Random(f"manner of {spec.seed}")
        modes: list[Mode] = ["asyncio", "asyncio", "uvloop"]
        # A client of a thread connects from the address that the system chooses.
        if threads and not spec.source:
            modes.append("threads")
        mode: Mode = spec.settings.get("mode") or chance.choice(modes)
        # Nothing can cancel a thread.
        return cls(mode, "raise" if mode == "threads" else chance.choice(("cancel", "raise")))


class Tasks:
    """The tasks, or threads, of a worker, and the commands that concern them."""

    def __init__(self, worker: Worker, work: Work) -> None:
        self._worker = worker
        self._work = work
        self._present: dict[str, asyncio.Task[None]] = {}
        self._stopped = asyncio.get_running_loop().create_future()
        self._received = b""
        self._threads = ThreadPoolExecutor(worker.spec.tasks)
        self._chance = random.Random(f"cancelled of {worker.spec.seed}")

    async def run(self) -> None:
        """Work until the command to stop."""
        spec, loop = self._worker.spec, asyncio.get_running_loop()
        names = [f"{spec.name}.{number}" for number in range(spec.tasks)]
        os.set_blocking(sys.stdin.fileno(), False)
        # Not a thread that reads: it could not be ended.
        loop.add_reader(sys.stdin.fileno(), self._read)
        keep = self._keep_in_thread if self._worker.threaded else self._keep
        working = [asyncio.create_task(keep(name)) for name in names]
        stopped = asyncio.ensure_future(self._stopped)
        # A task that ends before is one that failed.
        await asyncio.wait([stopped, *working], return_when=asyncio.FIRST_COMPLETED)
        self._worker.stopping = True
        await asyncio.gather(*working)

    async def _keep(self, name: str) -> None:
        """Have a task work, and another one after it was cancelled."""
        while not self._worker.stopping:
            task = asyncio.create_task(_keep_working(self._worker, self._work), name=name)
            self._present[name] = task
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _keep_in_thread(self, name: str) -> None:
        from tests.jepsen.threads import drive

        def run() -> None:
            threading.current_thread().name = name
            drive(_keep_working(self._worker, self._work))

        await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _read(self) -> None:
        received = os.read(sys.stdin.fileno(), 4096)
        *rows, self._received = (self._received + received).split(b"\n")
        for row in rows:
            self._obey(row.decode().split())
        if not received:
            self._obey(["stop"])

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["block", seconds]:
                self._block(float(seconds))
            case ["cancel", number]:
                self._cancel(int(number))
            case ["stop"]:
                asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
                self._stopped.set_result(None)
            case _:
                raise ValueError(f"not a command: {words}")

    def _block(self, seconds: float) -> None:
        def block() -> None:
            since = now()
            time.sleep(seconds)
            self._worker.record.note("blocked", "", since=since)

        if self._worker.threaded:
            from redisson_py.sync import _loop_thread

            _loop_thread.start().soon(block)
        else:
            block()

    def _cancel(self, number: int) -> None:
        """Cancel tasks; a thread cannot be."""
        present = [name for name, task in self._present.items() if not task.done()]
        for name in self._chance.sample(present, min(number, len(present))):
            self._worker.record.note("cancelled", "", name)
            self._present[name].cancel()


async def _keep_working(worker: Worker, work: Work) -> None:
    while not worker.stopping:
        try:
            await work(worker)
        except RedissonError:
            # Losing a lease or the server is what happens here all the time; the record has it.
            await worker.sleep(0)
        except Exception as error:
            worker.record.note("unexpected", "", worker.handle, out="info", err=repr(error))
            raise


async def _farewell(worker: Worker, last: Last | None) -> None:
    """Use a lock of one's own and each object once more, without a timeout.

    Whatever was broken, it works again, and whoever waits for somebody else that waits does so for
    ever.
    """

    async def own(worker: Worker, obj: str) -> None:
        for client in worker.clients:
            async with client.get_lock(f"{obj}-{client.id}").hold(timeout=math.inf):
                pass

    await _repeat(worker, own, "farewell")
    for obj in worker.chance.sample(worker.spec.objects, len(worker.spec.objects)):
        if last is not None:
            await _repeat(worker, last, obj)


async def _repeat(worker: Worker, last: Last, obj: str) -> None:
    number = worker.record.invoke("farewell", obj, worker.handle)
    while True:
        with suppress(RedissonError):
            await last(worker, obj)
            break
    worker.record.complete(number)


async def _say_farewell(worker: Worker, last: Last | None) -> None:
    """Have a task, or a thread, of a name of its own say farewell."""
    name = f"{worker.spec.name}.farewell"
    if not worker.threaded:
        await asyncio.create_task(_farewell(worker, last), name=name)
        return
    from tests.jepsen.threads import drive

    def run() -> None:
        threading.current_thread().name = name
        drive(_farewell(worker, last))

    await asyncio.to_thread(run)


async def run(
    spec: WorkerSpec, work: Work, manner: Manner, last: Last | None = None
) -> dict[str, Any]:
    """Run the tasks of a worker until it is told to stop; return how it ran."""
    record = Recorder(Path(spec.folder), spec.name)
    options = {"client_name": spec.name, "listener": LossListener(record), **spec.options}
    # A release of which nobody knows must not look like one that was answered.
    options["on_release_error"] = "raise"
    threaded = manner.mode == "threads"
    async with AsyncExitStack() as stack:
        if spec.source:
            from redisson_py.testing import connecting_from

            stack.enter_context(connecting_from(spec.source))
        if threaded:
            from tests.jepsen.threads import client_of

            clients: list[Any] = [client_of(url, options) for url in spec.urls]
            resource: Any = ThreadConnections(spec.resource)
        else:
            options["on_lost"] = manner.on_lost
            clients = [
                await stack.enter_async_context(Redisson.from_url(url, **options))
                for url in spec.urls
            ]
            resource = await SharedConnection.open(spec.resource)
        if len(spec.urls) == 1 and not older.is_running():
            from tests.jepsen.sleeps import watch_sleeps

            watch_sleeps(partial(record_sleep, record))
        worker = Worker(spec, record, clients, resource, threaded)
        tasks = Tasks(worker, work)
        record.note("began", "", value={**asdict(manner), "older": older.is_running()})
        say("ready")
        await tasks.run()
        await _say_farewell(worker, last)
        for client in clients:
            counted = client.statistics()
            record.note("left", "", value=[counted.held_leases, counted.waiters])
            if threaded:
                await asyncio.to_thread(client.own.close)
    resource.close()
    for client in clients:
        record.note("closed", "", owner=client.id)
    await asyncio.sleep(0)
    record.note("left", "tasks", value=len(asyncio.all_tasks()) - 1)
    return asdict(manner)


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, also while it is stopped."""
    die_with_parent = 1  # PR_SET_PDEATHSIG: a run starts its workers in its main thread
    ctypes.CDLL(None).prctl(die_with_parent, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit("the run has died already")


def main() -> None:
    """Work as the command line says."""
    from tests.jepsen.workloads import WORKLOADS

    _end_with_parent()
    spec = WorkerSpec.from_json(sys.argv[1])
    if spec.settings.get("older") and int(spec.name[1:]) % 2 and not older.is_running():
        spec = replace(spec, folder=str(Path(spec.folder).resolve()))
        older.run_instead(Path(spec.folder), "tests.jepsen.worker", spec.to_json())
    workload = WORKLOADS[spec.workload]
    manner = Manner.of(spec, workload.threads)
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if manner.mode == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        done = runner.run(run(spec, workload.work, manner, workload.last))
    say(json.dumps(done))


if __name__ == "__main__":
    main()
