"""Which stream serves a key.

One server has one stream; so has the current master where Sentinels name it. A cluster needs one
for each node: redisson_py/_redis/topology/cluster.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from redisson_py._loop import Task, discard, end_tasks, start_task, wait_for_all
from redisson_py._redis.stream.call import Call
from redisson_py._redis.stream.settings import Opener, Topology
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.stream.wire import Traffic
from redisson_py.errors import ClientClosedError


class Router(Protocol):
    """The streams of one client."""

    def stream_for(self, key: bytes) -> Stream:
        """Return the stream to the node that serves `key`."""
        ...

    def streams(self) -> tuple[Stream, ...]:
        """Return the main stream to each server."""
        ...

    def group(self, key: bytes) -> int:
        """Return a number that is the same for keys one script may touch together."""
        ...

    @property
    def node_ids(self) -> frozenset[str]:
        """The ids of the nodes of a cluster, as far as known; empty for other servers."""
        ...

    @property
    def traffic(self) -> Traffic:
        """What went over the connections of all present and former streams."""
        ...

    def count_replicas(self, stream: Stream, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of replicas that a stream's master has.

        The number is what other servers say; None if none of them knows.
        """
        ...

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        ...

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        ...

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        ...

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        ...

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        ...

    def reset(self) -> object:
        """Start afresh for another event loop or process; return what was there."""
        ...


class NewStream(Protocol):
    """Makes a stream."""

    def __call__(
        self,
        opener: Opener,
        topology: Topology | None = None,
        *,
        sharded: bool = False,
        fails_over: bool = False,
    ) -> Stream: ...


class Followers(Protocol):
    """What relies on the servers that serve its keys: seats and holds."""

    @property
    def any(self) -> bool:
        """Whether there are any."""
        ...

    def moved(self, concerns: Callable[[bytes], bool]) -> None:
        """Note that keys have another master, or a new connection to it."""
        ...

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> bool:
        """Note that a server ended, or refused, a subscription; return whether it is needed."""
        ...

    def recover(self) -> None:
        """Renew the subscriptions that servers have ended."""
        ...


async def close_all(streams: Iterable[Stream], error: ClientClosedError) -> None:
    """Close streams; what is under way fails with `error`."""
    streams = tuple(streams)
    downs = [down for each in streams if (down := each.close_soon(error)) is not None]
    await wait_for_all(downs, max(each.reply_timeout for each in streams))


class SingleRouter:
    """The one stream of a client of one server, or of one master.

    Args:
        new_stream: Makes the stream, and another one for another event loop.

    Attributes:
        only: The one stream.
    """

    def __init__(self, new_stream: Callable[[], Stream]) -> None:
        self._new_stream = new_stream
        self.only: Stream = new_stream()
        self._tasks: list[Task] = []

    def stream_for(self, key: bytes) -> Stream:
        """Return the one stream."""
        return self.only

    def streams(self) -> tuple[Stream, ...]:
        """Return the one stream."""
        return (self.only,)

    def group(self, key: bytes) -> int:
        """Return the same number for all keys."""
        return 0

    @property
    def node_ids(self) -> frozenset[str]:
        """Empty: this is no cluster."""
        return frozenset()

    @property
    def traffic(self) -> Traffic:
        """What went over the connections of the one stream, and of those before it."""
        return self.only.whole_traffic

    def count_replicas(self, stream: Stream, then: Callable[[int | None], None]) -> None:
        """Call `then` with None: no other server could know."""
        then(None)

    async def run(self) -> None:
        """Keep the stream open for as long as it is needed; ends by cancellation."""
        only = self.only
        self._tasks = [
            start_task(each.run(), f"redisson_py grants {each.where}")
            for each in only.pair
            if each is not only
        ]
        try:
            await only.run()
        finally:
            await end_tasks(self._tasks)

    async def close(self, error: ClientClosedError) -> None:
        """Close the stream; what is under way fails with `error`."""
        await close_all(self.only.pair, error)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        for each in self.only.pair:
            each.fail(error)

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        for each in self.only.pair:
            each.break_down(cause)

    def leave_behind(self) -> None:
        """Close the socket although the event loop was closed."""
        for each in self.only.pair:
            each.leave_behind()
        for task in self._tasks:
            if not task.done():
                discard(task)

    def reset(self) -> object:
        """Make a new stream; return the old one."""
        before, self.only = self.only, self._new_stream()
        self.only.traffic = before.whole_traffic
        return before
