"""The connections of one client of Redis: its streams, and what these tell the client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from redisson_py import _keys
from redisson_py._engine.client_life import ENDED_WITH_LOOP, ClientLife
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS
from redisson_py._engine.wakeups import Table
from redisson_py._listener import Teller
from redisson_py._loop import Cancelled, is_closed, wait_for_all
from redisson_py._options import Options
from redisson_py._outage import Outages
from redisson_py._owner import Owners
from redisson_py._redis.executor import Executor
from redisson_py._redis.inspecting import own_description
from redisson_py._redis.stream.router import Router, SingleRouter
from redisson_py._redis.stream.settings import Callbacks, Opener, StreamSettings, Topology
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.subscriptions import Subscriptions
from redisson_py._redis.topology.confirming import ConfirmingStream
from redisson_py._redis.topology.routers import new_router
from redisson_py._statistics import Counts
from redisson_py._time import milliseconds
from redisson_py.errors import ClientClosedError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import Servers

log = logging.getLogger("redisson_py")

#: Seconds for which a client that closes tries to reach a server that did not get its releases.
_RECONNECT_SECONDS = 1.0


class RedisConnections:
    """Makes the streams of a client, for `ClientLife`.

    Args:
        servers: What the user named.
        options: The client's.
        life: The client's, which learns how an event loop ends them.
        table: The seats that they wake.
        owners: They know the client's id.
        counts: Counts outages.
        teller: Tells them to a listener, if there is one.

    Attributes:
        subscriptions: What relies on them.
        router: Says which stream serves a key.
        executor: Sends what the client asks.
    """

    def __init__(
        self,
        servers: Servers,
        options: Options,
        life: ClientLife,
        table: Table,
        owners: Owners,
        counts: Counts,
        teller: Teller | None,
    ) -> None:
        self._where = servers.where
        self._options = options
        self._life = life
        self._owners = owners
        self._counts = counts
        self._teller = teller
        self._described_until = 0.0
        self._replicas: Literal["auto"] | int = options.replicas_where(servers.topology)
        self.subscriptions: Subscriptions = Subscriptions(table)
        self.router: Router = new_router(servers, options, self._new_stream, self.subscriptions)
        self.executor: Executor = Executor(
            self.router,
            life.begin,
            options.command_timeout,
            options.lease_time,
            confirms=self._replicas != 0,
        )

    def _new_stream(
        self,
        opener: Opener,
        topology: Topology | None = None,
        *,
        sharded: bool = False,
        fails_over: bool = False,
    ) -> Stream:
        options = self._options
        settings = StreamSettings(
            opener=opener,
            reply_timeout=options.reply_timeout_where(fails_over),
            tell=Callbacks(
                on_message=self.subscriptions.message,
                on_connected=self.subscriptions.connected,
                on_down=self.subscriptions.cut_off,
                needed=self._needs,
                on_end=self._end_with_loop,
                on_outlived=self._outlived,
                on_put_off=self.subscriptions.put_off,
                is_known=self.subscriptions.is_known,
                count_replicas=lambda stream, then: self.router.count_replicas(stream, then),
            ),
            outages=Outages(opener.where, self._counts, self._teller),
            sharded=sharded,
            fails_over=fails_over,
            topology=topology,
        )
        stream = Stream(settings)
        if self._replicas != 0:
            ConfirmingStream(
                settings, main=stream, replicas=self._replicas, sync_timeout=options.sync_timeout
            )
        return stream

    def _needs(self, stream: Stream) -> bool:
        """Return whether tasks hold or wait for keys that a stream serves."""
        if isinstance(self.router, SingleRouter):
            return self.subscriptions.any
        return self.subscriptions.rely_on(stream)

    async def _end_with_loop(self, stream: Stream) -> bool:
        # After a fork, one of the parent may end here.
        return stream.main in self.router.streams() and await self._life.end_with_loop()

    def _outlived(self, _: Stream) -> None:
        if all(stream.outlives is None for stream in self.router.streams()):
            self._life.outlived()

    # What the client says of itself, for `inspect`.

    @property
    def _description_key(self) -> bytes:
        return _keys.client_description(self._options.names.prefix, self._owners.client_id)

    def describe(self, present: float) -> None:
        """Send this client's description, if that is due, together with the caller's commands."""
        if present < self._described_until:
            return
        lease_time = self._options.lease_time
        self._described_until = present + lease_time
        text = own_description(self._options.client_name)
        key = self._description_key
        # Who waits says it again with its next look, which is at most 7.5 s away.
        lives = milliseconds(3 * max(lease_time, SAFETY_POLL_SECONDS))
        self.executor.command(key, "SET", key, text, "PX", lives, must=True)

    # Their life: see `ClientLife`.

    @property
    def connected(self) -> bool:
        """Whether there have been connections."""
        return self.router.traffic.connections > 0

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        try:
            await self.router.run()
        except BaseException as failure:
            ends = isinstance(failure, (Cancelled, GeneratorExit)) or is_closed(self._life.loop)
            if not ends:
                log.critical("background task of %s failed", self._where, exc_info=failure)
                self.router.break_down(failure)
            raise

    async def finish(self, seconds: float) -> None:
        """Withdraw the description, and wait until everything that was sent has been answered."""
        if self._described_until:
            self._described_until, key = 0.0, self._description_key
            stream = self.router.stream_for(key)
            stream.command(("DEL", key), self._options.command_timeout, key, must=True)
        # The PING is answered after all releases, unless the connection breaks.
        pings = [stream.ping().future for stream in self.router.streams() if stream.ready]
        await wait_for_all(pings, seconds)
        # Then they go out with the next connection, if the first attempt to open one succeeds.
        broken = [each for each in self.router.streams() if not (each.ready or each.idle)]
        again = [each.ping_again(_RECONNECT_SECONDS).future for each in broken]
        await wait_for_all(again, _RECONNECT_SECONDS)

    async def close(self) -> None:
        """Fail what is under way, and close every stream."""
        await self.router.close(ClientClosedError("the client was closed"))

    def leave_behind(self) -> None:
        """Close the sockets of an event loop that was closed, or fail what is under way in one."""
        if is_closed(self._life.loop):
            self.router.leave_behind()
        else:
            self.router.fail(ClientClosedError(ENDED_WITH_LOOP))

    def reset(self) -> object:
        """Make new streams; return what was there."""
        self._described_until = 0.0
        self.subscriptions.reset()
        return self.router.reset()
