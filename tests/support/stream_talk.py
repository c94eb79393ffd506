"""A stream that tests use directly, without a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from redisson_py._outage import Outages
from redisson_py._redis.redis_py import servers_from_url
from redisson_py._redis.scripts.source import parse
from redisson_py._redis.stream.call import Arg, Call, ReplyError
from redisson_py._redis.stream.settings import Callbacks, StreamSettings, Topology
from redisson_py._redis.stream.stream import Stream
from redisson_py.errors import ClientClosedError

#: Seconds; no test reaches this limit.
PATIENT = 30.0


SCRIPT = parse("""\
#!lua
--! script   test.script
--! version  1
--! keys     key:string
--! args
--! returns  any = what the peer says
--! retry    safe: it changes nothing
return 1
""")


class Around:
    """The other nodes of a cluster, none of which serves anything.

    Args:
        ended: Gets the channels that the node has ended.
    """

    def __init__(self, ended: list[bytes]) -> None:
        self._ended = ended

    def send_again(self, call: Call) -> Call:
        """Lose a call."""
        return call

    def redirected(self, stream: Stream, call: Call, error: ReplyError) -> bool:
        """Take every error for the call's own."""
        return False

    def went_down(self, stream: Stream) -> None:
        """Do nothing."""

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> None:
        """Remember a channel."""
        self._ended.append(channel)

    async def confirm(self, stream: Stream) -> None:
        """Say that the node serves what it served."""

    def confirm_late(self, stream: Stream, then: Callable[[], None]) -> None:
        """Say so at once."""
        then()


class Talk:
    """A stream that is kept open, and what it reported to its client.

    Attributes:
        needed: Whether the connection is needed while it is idle.
        gone: Channels that the server stopped serving.
    """

    def __init__(
        self,
        url: str,
        reply_timeout: float = PATIENT,
        *,
        needed: bool = False,
        sharded: bool = False,
        topology: Topology | None = None,
    ) -> None:
        self.needed = needed
        self.messages: list[tuple[bytes, bytes]] = []
        self.gone: list[bytes] = []
        self.connected = 0
        self.downs = 0
        connector = servers_from_url(url, None).connector
        self.stream = Stream(
            StreamSettings(
                opener=connector,
                reply_timeout=reply_timeout,
                tell=Callbacks(
                    on_message=lambda channel, payload: self.messages.append((channel, payload)),
                    on_connected=self._on_connected,
                    on_down=self._on_down,
                    needed=lambda _: self.needed,
                ),
                outages=Outages(connector.where),
                sharded=sharded,
                topology=Around(self.gone) if topology is None and sharded else topology,
            )
        )
        self._running: asyncio.Task[None] | None = None
        self._calls: list[Call] = []

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.stream.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the stream and end its task."""
        await self.stream.close(ClientClosedError("closed by the test"))
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()
        for call in self._calls:
            if call.future.done() and not call.future.cancelled():
                # Some tests do not await all their calls; this keeps asyncio from reporting them.
                call.future.exception()

    def call(self, *args: Arg, seconds: float = PATIENT, must: bool = False) -> Call:
        """Send a command."""
        call = self.stream.command(args, seconds, must=must)
        self._calls.append(call)
        return call

    def script(self, *args: Arg, seconds: float = PATIENT) -> Call:
        """Send a script."""
        deadline = asyncio.get_running_loop().time() + seconds
        return self.stream.send(Call((1, "key", *args), deadline, script=SCRIPT))

    async def ask(self, *args: Arg) -> Any:
        """Send a command and return its reply."""
        return await self.call(*args).future

    def _on_connected(self, _: Stream) -> None:
        self.connected += 1

    def _on_down(self, _: Stream) -> None:
        self.downs += 1
