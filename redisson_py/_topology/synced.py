"""Two connections to one server: one for grants that replicas confirm, one for everything else.

To a router and to callers they are one stream. Calls with an `Unconfirmed` future go with the
grants; so do the subscriptions of waiters, because SUBSCRIBE has to leave before the acquire
request. Neither a WAIT nor a frozen replica holds up releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from redisson_py._loop import (
    Future,
    Task,
    discard,
    new_future,
    start_task,
    wait_for_all,
    wait_until,
    wake,
)
from redisson_py._stream.call import Call, ReplyError
from redisson_py._stream.settings import Callbacks, StreamSettings, Topology
from redisson_py._stream.stream import Stream
from redisson_py._stream.unconfirmed import Unconfirmed
from redisson_py._stream.wire import Traffic
from redisson_py._topology.confirming import ConfirmingStream
from redisson_py.errors import ClientClosedError

#: The prefixes of channels that are not about grants: those of latches and barriers.
_NO_GRANTS = (b"redisson_countdownlatch__", b"redisson_py_barrier")


class SyncedStream(Stream):
    """The stream to one server, and inside it that of grants.

    Args:
        settings: As for `Stream`.
        replicas: How many must confirm a grant; "auto": one, if the master has any.
        sync_timeout: Seconds that they have for it.

    Attributes:
        grants: The stream of grants.
    """

    def __init__(
        self, settings: StreamSettings, *, replicas: Literal["auto"] | int, sync_timeout: float
    ) -> None:
        tell, topology = settings.tell, settings.topology
        super().__init__(replace(settings, tell=replace(tell, on_connected=self._connected)))
        self._tell_connected = tell.on_connected
        self._grants_task: Task | None = None
        self._ready_soon: Future[None] | None = None
        #: The one of the two that has just connected.
        self._new: Stream | None = None
        for_grants = replace(
            settings,
            tell=Callbacks(
                on_message=tell.on_message,
                on_connected=self._connected,
                on_down=lambda _: tell.on_down(self),
                needed=lambda _: self.needed,
                on_end=lambda _: tell.on_end(self),
                on_outlived=lambda _: tell.on_outlived(self),
                on_put_off=lambda _, call: tell.on_put_off(self, call),
                is_known=tell.is_known,
                count_replicas=lambda _, then: tell.count_replicas(self, then),
            ),
            topology=None if topology is None else _ForGrants(topology, self),
        )
        self.grants = ConfirmingStream(
            for_grants, replicas=replicas, sync_timeout=sync_timeout, beside=self._until_ready
        )

    def _connected(self, new: Stream) -> None:
        """One of the two is connected: renew only the subscriptions that belong to it."""
        if new is self:
            wake(self._ready_soon)
        self._new = new
        try:
            self._tell_connected(self)
        finally:
            self._new = None

    async def _until_ready(self, seconds: float) -> None:
        """Wait until releases have a connection."""
        if not self.ready:
            wake(self._wanted)
            self._ready_soon = new_future()
            await wait_until(self._ready_soon, seconds)

    # What callers use.

    @property
    def has_room(self) -> bool:
        """Never: the fast paths cannot send grants that replicas must confirm."""
        return False

    @property
    def full(self) -> bool:
        """Whether callers should wait for room before they send more."""
        return self.grants.full or super().full

    async def room(self, deadline: float) -> None:
        """Wait until both transports take more; errors as for `Stream`."""
        await super().room(deadline)
        await self.grants.room(deadline)

    @property
    def can_begin(self) -> bool:
        """Whether both connections are open and there is room; a grant may have to gather."""
        return self.grants.ready and not self.grants.full and super().has_room

    @property
    def in_doubt(self) -> bool:
        """Whether the server was out of reach, or silent, and has not been confirmed since."""
        return super().in_doubt or self.grants.in_doubt

    @property
    def whole_traffic(self) -> Traffic:
        """What went over all connections to this server."""
        return self.traffic + self.grants.traffic

    def doubt(self) -> None:
        """Require another server to confirm this one before the next connections are used."""
        super().doubt()
        self.grants.doubt()

    @property
    def in_trouble(self) -> bool:
        """Whether somebody waits for a server that is in doubt."""
        return self.in_doubt and (bool(self.waiting_keys()) or self.needed)

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return super().idle and self.grants.idle

    def waiting_keys(self) -> list[bytes]:
        """Return the keys of the calls that wait for a connection."""
        return [*self.grants.waiting_keys(), *super().waiting_keys()]

    def send(self, call: Call) -> Call:
        """Send a command on its connection, in its turn; its future gets the answer."""
        if type(call.future) is Unconfirmed:
            if not self.ready:
                # Open the other connection too: releases and pings go there.
                wake(self._wanted)
            return self.grants.send(call)
        return super().send(call)

    def gather(self) -> None:
        """Write what is sent in this turn of the event loop at its end, all at once."""
        # Only renewals ask for it.
        self.grants.gather()

    def subscribe(self, channel: bytes) -> Call | None:
        """Listen to a channel; it takes effect before requests for what the channel is about."""
        if channel.startswith(_NO_GRANTS):
            return None if self._new is self.grants else super().subscribe(channel)
        return None if self._new is self else self.grants.subscribe(channel)

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening to a channel."""
        if channel.startswith(_NO_GRANTS):
            super().unsubscribe(channel)
        else:
            self.grants.unsubscribe(channel)

    # The life of the connections.

    async def run(self) -> None:
        """Open connections whenever they are needed; ends only by cancellation."""
        grants = start_task(self.grants.run(), f"redisson_py grants {self.where}")
        self._grants_task = grants
        try:
            await super().run()
        finally:
            # An event loop that shuts down has cancelled it already; not a second time.
            if not grants.cancelling():
                grants.cancel()
            await wait_for_all([grants])

    def hurry(self) -> None:
        """Try to connect at once: the attempt is likely to succeed now."""
        super().hurry()
        self.grants.hurry()

    def abort(self, reason: str) -> None:
        """Give the connections up; unanswered calls go out again on the next."""
        super().abort(reason)
        self.grants.abort(reason)

    def take(self, leaves: Callable[[bytes], bool]) -> list[Call]:
        """Return, in order, the calls that wait here for keys that another server has now."""
        return [*self.grants.take(leaves), *super().take(leaves)]

    def end_pauses(self, concerns: Callable[[bytes], bool]) -> None:
        """Send the calls for some keys at once that wait for Redis to be ready for them."""
        self.grants.end_pauses(concerns)
        super().end_pauses(concerns)

    def retire(self, reason: str) -> list[Call]:
        """End, because the server serves none of our keys any more; return unanswered calls."""
        return [*self.grants.retire(reason), *super().retire(reason)]

    def let_go(self, call: Call) -> None:
        """Forget the deadline of a call that was refused here and is sent elsewhere."""
        super().let_go(call)
        self.grants.let_go(call)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        super().fail(error)
        self.grants.fail(error)

    def close_soon(self, error: ClientClosedError) -> Future[None] | None:
        """Fail what is under way; return a future for the end of the releases' connection."""
        self.grants.close_soon(error)
        return super().close_soon(error)

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        super().break_down(cause)
        self.grants.break_down(cause)

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        super().leave_behind()
        self.grants.leave_behind()
        if self._grants_task is not None and not self._grants_task.done():
            discard(self._grants_task)

    def _end_outlived(self, connection: Any) -> None:
        if self.grants.outlives is not None:
            self.grants._end_outlived(self.grants.outlives)
        super()._end_outlived(connection)


class _ForGrants:
    """The topology for the stream of grants: the same servers, in the name of both streams."""

    def __init__(self, topology: Topology, stream: Stream) -> None:
        self._topology = topology
        self._stream = stream

    def send_again(self, call: Call) -> Call:
        return self._topology.send_again(call)

    def redirected(self, stream: Stream, call: Call, error: ReplyError) -> bool:
        return self._topology.redirected(self._stream, call, error)

    def went_down(self, stream: Stream) -> None:
        self._topology.went_down(self._stream)

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> None:
        self._topology.gone(self._stream, channel, refused)

    async def confirm(self, stream: Stream) -> None:
        await self._topology.confirm(self._stream)

    def confirm_late(self, stream: Stream, then: Callable[[], None]) -> None:
        self._topology.confirm_late(self._stream, then)
