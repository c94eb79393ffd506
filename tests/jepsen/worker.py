"""A worker: a process with one client, whose tasks run a workload and record what they do.

Run as `python -m tests.jepsen.worker SPEC`, SPEC being the JSON of a `WorkerSpec`. It works until a
line (or the end) comes on standard input, then lets its tasks finish, closes its client and prints
what it did as one line of JSON. It may be killed or stopped at any moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from redisson_py import Lease, LeaseLostError, Listener, LostEvent, Redisson, RedissonError
from redisson_py._loop import wake
from redisson_py.testing import connecting_from
from tests.jepsen.history import Outcome, Recorder, now, say


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
        settings: What the workload was given: see `Facts.settings`.
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

    def to_json(self) -> str:
        """Return it as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote."""
        return cls(**json.loads(text))


class Resource:
    """The resource, as a worker sees it: one connection for all its tasks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._asked: list[asyncio.Future[str]] = []

    async def tell(self, *words: object) -> str:
        """Tell the next step and return the answer."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._writer.write((" ".join(map(str, words)) + "\n").encode())
        return await answer

    async def read(self) -> None:
        """Deliver the answers, in order, until the connection ends."""
        while line := await self._reader.readline():
            answer = self._asked.pop(0)
            if not answer.done():
                answer.set_result(line.decode().strip())


class Worker:
    """What the workloads use.

    Attributes:
        clients: One, or as many as the workload needs servers.
        record: Its history.
        chance: Its random choices.
        stopping: It is to come to an end.
        sections: How many uses of an object were begun.
    """

    def __init__(self, spec: WorkerSpec, clients: list[Redisson], resource: Resource) -> None:
        self.spec = spec
        self.clients = clients
        self.resource = resource
        self.record = Recorder(Path(spec.folder), spec.name)
        self.chance = random.Random(spec.seed)
        self.stopping = False
        self.sections = 0

    @property
    def client(self) -> Redisson:
        """Its only client, or the first."""
        return self.clients[0]

    def section(self) -> str:
        """Return a name for the next use of an object; no other process, or life of one, has it."""
        self.sections += 1
        return f"{self.spec.name}-{os.getpid()}/{self.sections}"

    @asynccontextmanager
    async def recorded(
        self, op: str, obj: str, rid: str, **facts: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Record an operation: the block does it, and puts what came out into the dict it is given.

        An error of the library that says that nothing happened is `fail`, all others are `info`.
        The error goes on.
        """
        number = self.record.invoke(op, obj, _task_name(), rid=rid, **facts)
        result: dict[str, Any] = {}
        try:
            yield result
        except BaseException as error:
            certain = getattr(error, "maybe_held", True) is False
            out: Outcome = "fail" if certain else "info"
            self.record.complete(number, out, **{"err": type(error).__name__, **result})
            raise
        self.record.complete(number, result.pop("out", "ok"), **result)

    def granted(self, lease: Lease) -> dict[str, Any]:
        """Return what is recorded of a lease."""
        return {"owner": lease.owner, "fence": lease.token, "deadline": deadline(lease)}

    def check(self, obj: str, rid: str, lease: Lease) -> None:
        """Record whether the holder still has its lease.

        Raises:
            LeaseLostError: It has not.
        """
        number = self.record.invoke("check", obj, _task_name(), rid=rid)
        try:
            lease.check()
        except LeaseLostError as error:
            self.record.complete(number, "fail", err=type(error).__name__)
            raise
        self.record.complete(number, "ok", deadline=deadline(lease))


def deadline(lease: Lease) -> int:
    """Return when a lease ends, by its holder's clock, in nanoseconds of the records' clock."""
    return now() + int(lease.remaining * 1e9)


def _task_name() -> str:
    task = asyncio.current_task()
    return task.get_name() if task else ""


class Losses(Listener):
    """The listener: records each loss in the moment in which the library tells it."""

    def __init__(self, record: Recorder) -> None:
        self._record = record

    def lost(self, event: LostEvent) -> None:
        """Record a loss; `owner` says whose."""
        name = event.name if isinstance(event.name, str) else event.name.decode()
        self._record.note("told", name, owner=event.owner, fence=event.token, err=event.reason)


async def run(spec: WorkerSpec, work: Callable[[Worker], Any]) -> dict[str, Any]:
    """Run the tasks of a worker until it is told to stop; return what is left of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", spec.resource)
    resource = Resource(reader, writer)
    reading = asyncio.create_task(resource.read())
    losses = Losses(Recorder(Path(spec.folder), f"{spec.name}-told"))
    async with AsyncExitStack() as stack:
        if spec.source:
            stack.enter_context(connecting_from(spec.source))
        clients = [
            await stack.enter_async_context(
                Redisson.from_url(url, client_name=spec.name, listener=losses, **spec.options)
            )
            for url in spec.urls
        ]
        worker = Worker(spec, clients, resource)
        told = asyncio.create_task(_until_told())
        say("ready")
        tasks = [
            asyncio.create_task(_keep_working(worker, work), name=f"{spec.name}.{number}")
            for number in range(spec.tasks)
        ]
        await told
        worker.stopping = True
        await asyncio.gather(*tasks)
        for client in clients:
            counted = client.statistics()
            worker.record.note("left", "", value=[counted.held_leases, counted.waiters])
    reading.cancel()
    writer.close()
    with suppress(asyncio.CancelledError):
        await reading
    worker.record.note("left", "tasks", value=len(asyncio.all_tasks()) - 1)
    return {"sections": worker.sections}


async def _keep_working(worker: Worker, work: Callable[[Worker], Any]) -> None:
    while not worker.stopping:
        try:
            await work(worker)
        except RedissonError:
            # Losing a lease or the server is what happens here all the time; the record has it.
            await asyncio.sleep(0)
        except Exception as error:
            worker.record.note("unexpected", "", out="info", err=repr(error))
            raise


async def _until_told() -> None:
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    # Not a thread that reads: it could not be ended.
    loop.add_reader(sys.stdin, wake, told)
    await told
    loop.remove_reader(sys.stdin)


def main() -> None:
    """Work as the command line says."""
    from tests.jepsen.workloads import WORKLOADS

    spec = WorkerSpec.from_json(sys.argv[1])
    say(json.dumps(asyncio.run(run(spec, WORKLOADS[spec.workload].work))))


if __name__ == "__main__":
    main()
