"""What the workloads use: a worker, and the record of each use of an object.

A section looks like a user's code, with a `Use` around it:

    async with lock.hold(timeout=1) as lease, use.held(lease):
        use.check(lease)
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from redisson_py import (
    AcquireTimeoutError,
    Lease,
    LeaseLostError,
    Listener,
    LostEvent,
    NotHeldError,
    Redisson,
    ScriptError,
    WaitEndedEvent,
    WaitStartedEvent,
)
from tests.jepsen.history import Outcome, Recorder, now
from tests.jepsen.resource_client import ResourceClient

if TYPE_CHECKING:
    from tests.jepsen.worker import WorkerSpec

#: The use of an object that the current task, or thread, has begun.
_current_use: ContextVar[Use | None] = ContextVar("use", default=None)


class Worker:
    """What the workloads use.

    Attributes:
        clients: One, or as many as the workload needs servers. With threads they only look like
            clients of tasks: see `threads`.
        resource: The protected resource.
        record: Its history.
        chance: Its random choices.
        threaded: Its tasks are threads.
        stopping: It is to come to an end.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        record: Recorder,
        clients: list[Redisson],
        resource: ResourceClient,
        threaded: bool = False,
    ) -> None:
        self.spec = spec
        self.record = record
        self.clients = clients
        self.resource = resource
        self.threaded = threaded
        self.chance = random.Random(spec.seed)
        self.stopping = False
        self._next = itertools.count(1).__next__

    @property
    def client(self) -> Redisson:
        """Its only client, or the first."""
        return self.clients[0]

    @property
    def lease_time(self) -> float:
        """Seconds of the leases of its clients."""
        return float(self.spec.options["lease_time"])

    @property
    def handle(self) -> str:
        """The name of the current task, or thread."""
        if self.threaded:
            return threading.current_thread().name
        task = asyncio.current_task()
        return task.get_name() if task else ""

    def section(self) -> str:
        """Return a name for the next use of an object; no other process, or life of one, has it."""
        return f"{self.spec.name}-{os.getpid()}/{self._next()}"

    def use(self, *objects: str, **facts: Any) -> Use:
        """Return the record of the next use of an object, or of several at once."""
        return Use(self, objects, facts)

    def timeout(self) -> float:
        """Return a timeout of an acquire: mostly long, sometimes one that passes."""
        return self.chance.choice((5.0, 5.0, 5.0, 0.5, 0.05))

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if self.threaded:
            # It is a thread that sleeps.
            time.sleep(seconds)  # noqa: ASYNC251
        else:
            await asyncio.sleep(seconds)

    @contextmanager
    def recorded(self, op: str, obj: str, rid: str, **facts: Any) -> Iterator[dict[str, Any]]:
        """Record an operation: the block does it, and puts what came out into the dict.

        An error that says that nothing happened is `fail`, all others are `info`. It goes on.
        """
        number = self.record.invoke(op, obj, self.handle, rid=rid, **facts)
        result: dict[str, Any] = {}
        try:
            yield result
        except BaseException as error:
            outcome = {"out": outcome_of(error), "err": type(error).__name__, **result}
            self.record.complete(number, **outcome)
            raise
        self.record.complete(number, **{"out": "ok", **result})


class Use:
    """The record of one use of an object, or of several that are acquired as one.

    As a block it records an acquire that begins, and how whatever it began has ended.

    Attributes:
        rid: Its name in the history.
        obj: The name of the object, or of the first.
        since: When its acquire began.
        raised: What its body has raised.
    """

    #: The words for its beginning and its end.
    _words = ("acquire", "release")

    def __init__(self, worker: Worker, objects: tuple[str, ...], facts: dict[str, Any]) -> None:
        self._worker = worker
        self._record = worker.record
        self._handle = worker.handle
        self._objects = objects
        self._facts = facts
        self._open: list[int] = []
        self.rid = worker.section()
        self.obj = objects[0]
        self.since = 0
        self.raised: BaseException | None = None

    def __enter__(self) -> Self:
        # A context is that of one task or thread: what comes next there replaces it.
        _current_use.set(self)
        self.since = now()
        self._begin(self._words[0], **self._facts)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._end("ok")
        elif error is self.raised:
            # The block raises the error of its body, whatever became of its release.
            self._end("info", err=f"{type(error).__name__} in the body")
        else:
            self._end(outcome_of(error), err=_named(error))

    def held(self, lease: Lease, **facts: Any) -> Held:
        """Record that it was acquired; at the end of the block, that its release begins."""
        self.granted(lease, **facts)
        return Held(self)

    def granted(self, lease: Lease, **facts: Any) -> None:
        """Record that it was acquired."""
        token = lease.token
        if token is not None:
            facts["fence"] = token
        self._end("ok", owner=lease.owner, deadline=deadline(lease), **{"n": 1, **facts})
        if (late := granted_late(lease)) is not None:
            moment, end = late
            self._note("late", "ok", moment, deadline=end)

    def refused(self) -> None:
        """Record that it was busy."""
        self._end("fail")

    def releasing(self) -> None:
        """Record that its release begins."""
        self._begin(self._words[1])

    def waits(self, kind: str) -> None:
        """Record that it has to wait."""
        self._note("waiting", "ok", now(), value=kind)

    def waits_no_more(self, outcome: str) -> None:
        """Record that its wait is over: `ok` if it was granted, else `info` with what became."""
        if outcome == "granted":
            self._note("woken", "ok", now())
        else:
            self._note("woken", "info", now(), err=outcome)

    def check(self, lease: Lease) -> None:
        """Record whether the holder still has its lease.

        Raises:
            LeaseLostError: It has not.
        """
        since = now()
        try:
            lease.check()
        except LeaseLostError as error:
            self._note("check", "fail", since, err=type(error).__name__)
            raise
        # What is over is over for good: no later look may succeed.
        mark: dict[str, Any] = {"value": "over"} if not lease.remaining else {}
        self._note("check", "ok", since, deadline=deadline(lease), **mark)

    def recorded(self, op: str, **facts: Any) -> Any:
        """Record another operation of this use: see `Worker.recorded`."""
        return self._worker.recorded(op, self.obj, self.rid, **facts)

    async def ask(self) -> None:
        """Tell the resource that it is about to be acquired."""
        await self._worker.resource.tell("ask", self.obj, self.rid)

    async def begin(self, lease: Lease, token: int | None = None) -> str:
        """Tell the resource that it was acquired; return what the resource has."""
        # A plain lock has no token: the resource accepts every write there.
        shown = token or lease.token or 0
        return await self._worker.resource.tell("begin", self.obj, self.rid, lease.owner, shown)

    async def write(self, lease: Lease, value: object, token: int | None = None) -> bool:
        """Write to the resource; return whether it accepted that."""
        shown = token or lease.token or 0
        said = await self._worker.resource.tell("write", self.obj, self.rid, shown, value)
        return said == "accepted"

    async def add_one(self, lease: Lease, token: int | None = None) -> None:
        """Read the number and write it back with one added, between two looks at the lease."""
        self.check(lease)
        value = int((await self.begin(lease, token)).split()[0])
        self.check(lease)
        await self.write(lease, value + 1, token)

    def _begin(self, op: str, **facts: Any) -> None:
        for obj in self._objects:
            self._open.append(self._record.invoke(op, obj, self._handle, rid=self.rid, **facts))

    def _end(self, out: Outcome, **facts: Any) -> None:
        for number in self._open:
            self._record.complete(number, out, **facts)
        self._open.clear()

    def _note(self, op: str, out: Outcome, since: int, **facts: Any) -> None:
        for obj in self._objects:
            self._record.note(op, obj, self._handle, out, since, rid=self.rid, **facts)


class Held:
    """A block inside the block of a lock: at its end the release begins.

    It does nothing that waits; it is asynchronous to stand in one line with the lock.
    """

    __slots__ = ("_use",)

    def __init__(self, use: Use) -> None:
        self._use = use

    async def __aenter__(self) -> None:
        return

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._use.raised = error
        self._use.releasing()


class LossListener(Listener):
    """The listener: records each loss, and each wait, in the moment in which the library tells it.

    A use waits if Redis says that its object is busy, or other tasks of the client come first.
    """

    def __init__(self, record: Recorder) -> None:
        self._record = record

    def lost(self, event: LostEvent) -> None:
        """Record a loss; `owner` says whose."""
        name = _text(event.name)
        self._record.note("told", name, owner=event.owner, fence=event.token, err=event.reason)

    def wait_started(self, event: WaitStartedEvent) -> None:
        """Record that a use waits."""
        if (use := _current_use.get()) is not None:
            use.waits(event.kind)

    def wait_ended(self, event: WaitEndedEvent) -> None:
        """Record that a use waits no more."""
        if (use := _current_use.get()) is not None:
            use.waits_no_more(event.outcome)


def record_sleep(
    record: Recorder, request: Any, busy: tuple[int, int], position: int, end: int
) -> None:
    """Record a sleep of a waiter that nothing woke: see `sleeps`."""
    use = _current_use.get()
    record.note(
        "overslept",
        _text(request.ownership.name),
        since=busy[0],
        rid="" if use is None else use.rid,
        value=[busy[1], end],
        n=position,
    )


def deadline(lease: Lease) -> int:
    """Return when a lease ends, by its holder's clock, in nanoseconds of the records' clock."""
    moment = now()
    return moment + int(lease.remaining * 1e9)


def granted_late(lease: Any) -> tuple[int, int] | None:
    """Return when the library gave a lease, and when it ended, if it was over by then.

    Both are moments of the library, which had to compare them: no pause of this process since makes
    a difference.
    """
    # A lease in a thread stands before one of tasks, and `Blocking` before that.
    own = getattr(lease, "own", lease)
    own = getattr(own, "_working", own)
    given_at, ends_at = own._granted_at, own._ends_at
    if given_at < ends_at or not math.isfinite(ends_at):
        return None
    return int(given_at * 1e9), int(ends_at * 1e9)


def outcome_of(error: BaseException) -> Outcome:
    """Return what is known of a call that raised: nothing happened for certain, or nobody knows."""
    if isinstance(error, AcquireTimeoutError | NotHeldError | ScriptError):
        return "fail"
    return "fail" if getattr(error, "maybe_held", True) is False else "info"


def _named(error: BaseException) -> str:
    """Return the class of an error, and the word by which Redis names its own."""
    said = error.message.split(" ")[0] if isinstance(error, ScriptError) else ""
    return f"{type(error).__name__} {said}".rstrip()


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode()


#: What a workload does: one section of one task.
Work = Callable[[Worker], Any]
