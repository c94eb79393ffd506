"""One open connection: bytes out in the order of the calls, replies in to the calls."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import hiredis

from redisson_py._loop import Future, InvalidState, monotonic, new_future, running_loop, wake
from redisson_py._redis.limits import (
    MOST_REPLY_BYTES,
    NEVER_HUGE_BYTES,
    Pieces,
    TooLargeError,
    maybe_huge,
)
from redisson_py._redis.stream.call import Call, ReplyError, shortened
from redisson_py.errors import ConnectionLostError

#: This many commands are written before the iteration of the event loop is over, if the server has
#: no more than that to do: it then works while we go on. Otherwise client and server would take
#: turns with a few dozen tasks (64 tasks: 34,000 pairs a second, with early writes 57,000).
_EARLY_COMMANDS = 32

#: The pushes that answer a command, and which one.
_CONFIRMS = {
    b"subscribe": "SUBSCRIBE",
    b"unsubscribe": "UNSUBSCRIBE",
    b"ssubscribe": "SSUBSCRIBE",
}

#: What reading raises if it is not RESP, too large, or a reply to no call: in a map, a key can be
#: of a type that no dict takes.
_GARBLED = (hiredis.ProtocolError, TooLargeError, IndexError, TypeError, MemoryError)

_NOTHING = object()
_Push = hiredis.PushNotification


@dataclass(slots=True)
class Traffic:
    """What went over the connections of one stream.

    Attributes:
        connections: Connections opened.
        commands: Commands written.
        writes: Writes to the transport that carried them.
        received: How often bytes came in.
        heard_at: When bytes last came in, by the monotonic clock.
        evicted: Calls given up before they could be sent.
    """

    connections: int = 0
    commands: int = 0
    writes: int = 0
    received: int = 0
    heard_at: float = 0.0
    evicted: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        """Return what went over the connections of both."""
        return Traffic(
            self.connections + other.connections,
            self.commands + other.commands,
            self.writes + other.writes,
            self.received + other.received,
            max(self.heard_at, other.heard_at),
            self.evicted + other.evicted,
        )


class Wire(asyncio.Protocol):
    """The reader and writer of one connection, from its takeover to its end.

    A reply or an error answers the oldest call. A push answers a call only if the oldest call is a
    subscription and the push confirms it, because such a command has no other reply. `sunsubscribe`
    confirms nothing: a server of a cluster also sends it unasked, for each channel of a slot that
    moves away, and refuses a SUNSUBSCRIBE that comes after that (MOVED). So HELLO is written behind
    each SUNSUBSCRIBE. HELLO is never refused, and its reply, a dict, completes both.

    What is not RESP, answers no call, or cannot be the answer of the script that was called, ends
    the connection: from there on it is not known which reply belongs to which call. The calls are
    sent again on the next connection, as after any other break.

    Args:
        traffic: Counters of the stream.
        on_message: Called with channel and payload of every message.
        on_gone: Called with a channel whose subscription the server ended of its own accord.
        on_refused: Called with every call that was answered by an error.
        on_room: Called when there may be room for more.
        on_down: Called when the connection is gone.

    Attributes:
        in_flight: Calls written and not answered, oldest first.
        paused: The transport is full.
        down: Done when the connection is gone.
        why: The reason why it is gone, or is given up, as text.
        garbled: It was given up because of what came.
    """

    def __init__(
        self,
        traffic: Traffic,
        *,
        on_message: Callable[[bytes, bytes], None],
        on_gone: Callable[[bytes], None],
        on_refused: Callable[[Call, ReplyError], None],
        on_room: Callable[[], None],
        on_down: Callable[[], None],
    ) -> None:
        self._traffic = traffic
        self._on_message = on_message
        self._on_gone = on_gone
        self._on_refused = on_refused
        self._on_room = on_room
        self._on_down = on_down
        self._reader = hiredis.Reader(replyError=ReplyError, notEnoughData=_NOTHING)
        self._pieces = Pieces(self._reader.has_data)
        #: Bytes since the last reply.
        self._unread = 0
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._unwritten = 0
        self._early: float = _EARLY_COMMANDS
        self._flushing = False
        self._loop = running_loop()
        #: Bytes that came after a long silence, and what is called with the first: `hold_back`.
        self._held: list[bytes] | None = None
        self._on_held: Callable[[], None] | None = None
        self.paused = False
        self.in_flight: deque[Call] = deque()
        self.down: Future[None] = new_future()
        self.why = ""
        self.garbled = False

    def attach(self, transport: asyncio.Transport) -> None:
        """Write to this transport."""
        self._transport = transport
        self._traffic.connections += 1

    @property
    def peer(self) -> object:
        """What it is connected to, as the transport names it; None: nothing, or not known."""
        return None if self._transport is None else self._transport.get_extra_info("peername")

    def put(self, call: Call, packed: bytes) -> None:
        """Write a command; in general those of one iteration of the event loop leave together."""
        self.in_flight.append(call)
        self._out.append(packed)
        self._unwritten += 1
        self._traffic.commands += 1
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_gathered)
        elif self._unwritten >= self._early >= len(self.in_flight) - self._unwritten:
            self.flush()

    def gather(self) -> None:
        """Write what is put in this iteration of the event loop at its end, whatever the number."""
        self._early = math.inf
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_gathered)

    def _flush_gathered(self) -> None:
        self._flushing = False
        self._early = _EARLY_COMMANDS
        self.flush()

    def flush(self) -> None:
        """Write what was put."""
        if self._out and self._transport is not None:
            data = self._out[0] if self._unwritten == 1 else b"".join(self._out)
            self._out.clear()
            self._unwritten = 0
            self._traffic.writes += 1
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        """Answer the calls in their order; pass messages on."""
        if self._held is not None:
            self._hold(data)
            return
        self._traffic.received += 1
        self._traffic.heard_at = monotonic()
        next_reply, oldest = self._reader.gets, self.in_flight.popleft
        kind: object = None
        try:
            cut = (
                self._pieces.cut
                or data[-2:] != b"\r\n"
                or (len(data) > NEVER_HUGE_BYTES and maybe_huge(data))
            )
            pieces = self._pieces.of(data, goes_on=self._unread > 0) if cut else (data,)
            for piece in pieces:
                self._reader.feed(piece)
                while (reply := next_reply()) is not _NOTHING:
                    kind = type(reply)
                    if kind is _Push:
                        self._pushed(reply)
                    elif kind is ReplyError:
                        self._on_refused(oldest(), reply)
                    else:
                        call = oldest()
                        if call.channel is not None:
                            call = self._behind(call, reply)
                        script = call.script
                        if script is None:
                            fits = True
                        elif reply is None:
                            fits = script.may_be_nil
                        elif kind is int:
                            fits = (
                                reply >= script.least
                                or reply in script.literals
                                or reply <= script.most
                            )
                        else:
                            fits = script.fits(reply, call.args)
                        if not fits:
                            self._no_reply(call, reply)
                        try:
                            call.future.set_result(reply)
                        except InvalidState:
                            call.succeed(reply)  # its caller waits no more
            if kind is not None:
                self._unread = 0
            else:
                self._unread += len(data)
                if self._unread > MOST_REPLY_BYTES:
                    raise TooLargeError(f"a reply of more than {MOST_REPLY_BYTES} bytes")
        except _GARBLED as error:
            # This connection cannot be trusted any more.
            self.garbled = True
            self.why = self.why or f"unreadable answer: {error}"
            self.abort()
        self._on_room()

    def _no_reply(self, call: Call, reply: object) -> None:
        """Refuse a reply that the script of a call cannot have given; the call is sent again."""
        self.in_flight.appendleft(call)
        text = f"unexpected answer to {call.name}: {shortened(reply)}"
        call.why_not = text
        raise hiredis.ProtocolError(text)

    def hold_back(self, on_held: Callable[[], None]) -> None:
        """Read nothing more before `read_on`; `on_held` is called when something comes."""
        self._held, self._on_held = [], on_held

    def _hold(self, data: bytes) -> None:
        assert self._held is not None
        self._held.append(data)
        self._unread += len(data)
        if self._unread > MOST_REPLY_BYTES:
            self.abort()
            return
        on_held, self._on_held = self._on_held, None
        if on_held is not None:
            on_held()

    def read_on(self) -> None:
        """Read what was held back, and all that follows."""
        held, self._held = self._held, None
        self._unread = 0
        if held and self._transport is not None:
            self.data_received(b"".join(held))

    def _behind(self, call: Call, reply: object) -> Call:
        """Complete a SUNSUBSCRIBE, the oldest call; return the call that a reply answers."""
        if call.args[0] != "SUNSUBSCRIBE" or type(reply) is not dict:
            # Only a push confirms a subscription: this answers another call.
            raise hiredis.ProtocolError("the server did not confirm a subscription")
        call.succeed(None)
        return self.in_flight.popleft()

    def _pushed(self, push: list[bytes]) -> None:
        if len(push) < 3 or type(push[0]) is not bytes or type(push[1]) is not bytes:
            # Nothing that was asked for.
            return
        kind = push[0]
        if kind in (b"message", b"smessage"):
            if type(push[2]) is bytes:
                self._on_message(push[1], push[2])
        elif kind == b"sunsubscribe":
            # If the oldest call asks for just that, it makes no difference who caused it.
            if not self._is_oldest("SUNSUBSCRIBE", push[1]):
                self._on_gone(push[1])
        elif kind in _CONFIRMS and self._is_oldest(_CONFIRMS[kind], push[1]):
            # The confirmation is the only answer a subscription gets.
            self.in_flight.popleft().succeed(None)

    def _is_oldest(self, word: str, channel: bytes) -> bool:
        oldest = self.in_flight[0] if self.in_flight else None
        return oldest is not None and oldest.channel == channel and oldest.args[0] == word

    def pause_writing(self) -> None:
        """The transport is full."""
        self.paused = True

    def resume_writing(self) -> None:
        """The transport takes more."""
        self.paused = False
        self._on_room()

    def eof_received(self) -> bool:
        """The server closed; so do we."""
        self.why = self.why or "closed by the server"
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the calls that concern only this connection; the stream handles the others."""
        self.why = self.why or str(exc or "it broke")
        for call in self.in_flight:
            if not call.deadline:
                call.fail(ConnectionLostError("the connection broke", maybe_held=False))
        # asyncio's transport fails if `abort` is called after this.
        self._transport = None
        self._on_down()
        wake(self.down)
