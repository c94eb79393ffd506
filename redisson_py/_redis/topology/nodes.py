"""The streams to the nodes of a cluster: made, kept running, given up, closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from redisson_py._addresses import Address
from redisson_py._loop import (
    Future,
    Task,
    discard,
    end_tasks,
    new_future,
    start_task,
    wait_for_all,
)
from redisson_py._redis.stream.router import close_all
from redisson_py._redis.stream.wire import Traffic

if TYPE_CHECKING:
    from redisson_py._redis.stream.call import Call
    from redisson_py._redis.stream.stream import Stream
    from redisson_py.errors import ClientClosedError

log = logging.getLogger("redisson_py")


class Nodes:
    """A stream to each node that is known, each in a task of its own.

    Args:
        unrouted: The stream of calls whose node is not known yet; it is kept with the others.
        new_stream: Makes the stream to an address.
        past: The traffic of earlier connections.
    """

    def __init__(
        self, unrouted: Stream, new_stream: Callable[[Address], Stream], past: Traffic
    ) -> None:
        self._unrouted = unrouted
        self._new_stream = new_stream
        #: It includes the traffic of streams that were given up.
        self._past = past
        self._streams: dict[Address, Stream] = {}
        self._addresses: dict[Stream, Address] = {}
        #: Addresses whose streams were given up. An older map may lead there once more.
        self._left: set[Address] = set()
        self._tasks: set[Task] = set()
        self._ended: Future[None] | None = None
        #: The context of the background task; streams may also be made in the task of a caller.
        self._context: Context | None = None

    @property
    def running(self) -> bool:
        """Whether tasks may be started."""
        return self._ended is not None

    @property
    def traffic(self) -> Traffic:
        """What went over the connections of all present and former streams."""
        return sum((stream.whole_traffic for stream in self.streams()), self._past)

    @property
    def suspected(self) -> set[Address]:
        """The addresses of those that were out of reach, or silent, and are not confirmed yet."""
        streams = self._streams.items()
        return {at for at, main in streams if any(each.suspected for each in main.pair)}

    @property
    def delays_callers(self) -> bool:
        """Whether somebody waits for one of these."""
        return any(each.delays_callers for main in self._streams.values() for each in main.pair)

    def streams(self) -> tuple[Stream, ...]:
        """Return the main streams to all nodes that are known, and that of unrouted calls."""
        return (self._unrouted, *self._streams.values())

    def all(self) -> list[Stream]:
        """Return these streams and those of grants."""
        return [each for main in self.streams() for each in main.pair]

    def address(self, stream: Stream) -> Address | None:
        """Return the address of a stream that serves a node; None for any other."""
        return self._addresses.get(stream.main)

    def get(self, address: Address) -> Stream | None:
        """Return the stream to an address, if there is one."""
        return self._streams.get(address)

    def connected(self, address: Address) -> Stream | None:
        """Return the stream to an address if it has an open connection."""
        stream = self._streams.get(address)
        return stream if stream is not None and stream.ready else None

    def at(self, address: Address) -> Stream:
        """Return the stream to an address; it connects at first need."""
        stream = self._streams.get(address)
        if stream is None:
            stream = self._streams[address] = self._new_stream(address)
            self._addresses[stream] = address
            if address in self._left:
                for each in stream.pair:
                    each.suspect()
            self._start(stream)
        return stream

    def without(self, masters: Collection[Address]) -> list[Stream]:
        """Return the idle streams to nodes that are not among `masters`."""
        return [
            main
            for address, main in self._streams.items()
            if address not in masters and all(each.idle for each in main.pair)
        ]

    def retire(self, stream: Stream) -> list[Call]:
        """Give up a stream whose node serves nothing any more; return unanswered calls."""
        why = f"Redis at {stream.where} no longer serves slots of the cluster"
        log.info("%s", why)
        address = self._addresses.pop(stream)
        del self._streams[address]
        self._left.add(address)
        calls = [call for each in stream.pair for call in each.retire(why)]
        self._past += stream.whole_traffic
        return calls

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        ended = self._ended = new_future()
        self._context = copy_context()
        for stream in self.streams():
            self._start(stream)
        try:
            await wait_for_all([ended])
            ended.result()
        finally:
            self._ended = None
            await end_tasks(list(self._tasks))

    def start(self, work: Coroutine[Any, Any, None], name: str) -> Task:
        """Start a task that ends together with the streams."""
        task = start_task(work, name, self._context)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _start(self, stream: Stream) -> None:
        if self.running:
            for each in stream.pair:
                self.start(each.run(), f"redisson_py {stream.where}")

    def _task_done(self, task: Task) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and self._ended is not None and not self._ended.done():
            # A failure ends all tasks and is reported; the next use starts them again.
            self._ended.set_exception(failure)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        for stream in self.all():
            stream.fail(error)

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        await close_all(self.all(), error)

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        for stream in self.all():
            stream.break_down(cause)

    def leave_behind(self) -> None:
        """Close the sockets, and end the tasks, of an event loop that was closed."""
        for stream in self.all():
            stream.leave_behind()
        for task in self._tasks:
            if not task.done():
                discard(task)
