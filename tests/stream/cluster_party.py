"""A client of one cluster node that checks every answer, and a node that follows the rules.

What a node does was observed on Valkey 9.1 and Redis 7.0, and `test_cluster_wire.py` compares: it
pushes `sunsubscribe` by itself, ahead of what it has still to answer, when a slot moves away; it
then refuses SUNSUBSCRIBE like every other command for that slot; and it never refuses HELLO.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis

from redisson_py._dialect import Dialect
from redisson_py._stream.call import Call, ReplyError
from redisson_py._stream.wire import Traffic, Wire
from tests.support.fake_peer import Command, bulk, error, hello, push

MOVED = "MOVED 1 127.0.0.1:7001"
DOWN = "CLUSTERDOWN The cluster is down"
CONFIRMED = "confirmed"
#: Whose reply is told from all others.
TELL = "return ARGV[1]"


class Pipe(asyncio.Transport):
    """Keeps what is written until the other side reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = hiredis.Reader()
        self.aborted = False

    def write(self, data: Any) -> None:
        """Take bytes."""
        self._reader.feed(bytes(data))

    def read(self) -> Command | None:
        """Return the next command, if there is one."""
        words = self._reader.gets()
        return tuple(words) if words else None

    def abort(self) -> None:
        """Remember that the connection was given up."""
        self.aborted = True


class Party:
    """What a stream and its client do with a wire, and what they know.

    Attributes:
        calls: Every call, in the order in which they were put.
        outcomes: What came of those that were refused; the others have it in their future.
        heard: The channels that the node is taken to serve.
        messages: What came on channels.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.outcomes: dict[Call, str] = {}
        self.heard: set[bytes] = set()
        self.messages: list[tuple[bytes, bytes]] = []
        self.wire = Wire(
            Traffic(),
            on_message=lambda channel, payload: self.messages.append((channel, payload)),
            on_gone=self.heard.discard,
            on_refused=self._refused,
            on_room=lambda: None,
            on_down=lambda: None,
        )

    def ask(self, channel: bytes) -> None:
        """Send a command for the slot of a channel; its reply says which one it was."""
        self.say("EVAL", TELL, 1, channel, b"%d" % len(self.calls))

    def subscribe(self, channel: bytes) -> None:
        """Listen."""
        self._put(_Change(self.heard.add, "SSUBSCRIBE", channel))

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening, as `Stream.unsubscribe` does."""
        self._put(_Change(self.heard.discard, "SUNSUBSCRIBE", channel))
        self.say("HELLO")

    def say(self, *args: bytes | str | int) -> Call:
        """Send a command."""
        return self._put(Call(args, 0, must=True))

    def _put(self, call: Call) -> Call:
        self.calls.append(call)
        self.wire.put(call, call.pack(Dialect.SHARDED))
        return call

    def outcome(self, call: Call) -> object:
        """Return what came of a call."""
        if call in self.outcomes:
            return self.outcomes[call]
        assert call.future.done(), f"no answer to {call.args!r}"
        result = call.future.result()
        if call.channel is not None:
            assert result is None
            return CONFIRMED
        return "hello" if isinstance(result, dict) else result

    def _refused(self, call: Call, reply: ReplyError) -> None:
        assert call not in self.outcomes
        assert not call.future.done()
        self.outcomes[call] = str(reply)
        if call.args[0] == "SUNSUBSCRIBE":
            assert isinstance(call, _Change)
            call.made()


class _Change(Call):
    """A subscription, or the end of one; what that changes is known at once, as in a stream."""

    def __init__(self, learn: Callable[[bytes], None], word: str, channel: bytes) -> None:
        super().__init__((word, channel), 0, must=True, channel=channel)
        self.made: Callable[[], None] = lambda: learn(channel)

    def succeed(self, reply: object) -> None:
        """Take the confirmation."""
        super().succeed(reply)
        self.made()


class SimulatedNode:
    """A node of a cluster; each channel has a slot of its own.

    Attributes:
        served: The channels whose slot is here.
        subscribed: Those that the client listens to.
        down: The cluster has lost too many nodes.
        log: What came of each command, as the client should see it.
        said: Messages that were sent.
    """

    def __init__(self, channels: list[bytes]) -> None:
        self.served = {*channels}
        self.subscribed: set[bytes] = set()
        self.down = False
        self.log: list[object] = []
        self.said: list[tuple[bytes, bytes]] = []
        self.out = b""

    def execute(self, command: Command) -> None:
        """Answer a command."""
        word, channel = command[0], command[3 if command[0] == b"EVAL" else -1]
        if word == b"HELLO":
            self._answer("hello", hello())
        elif self.down:
            self._answer(DOWN, error(DOWN))
        elif channel not in self.served:
            self._answer(MOVED, error(MOVED))
        elif word == b"EVAL":
            self._answer(command[4], bulk(command[4]))
        else:
            change = self.subscribed.add if word == b"SSUBSCRIBE" else self.subscribed.discard
            change(channel)
            self._answer(CONFIRMED, push(word.lower(), channel, len(self.subscribed)))

    def lose(self, channel: bytes) -> None:
        """Give the slot of a channel away."""
        self.served.discard(channel)
        if channel in self.subscribed:
            self.subscribed.discard(channel)
            self.out += push(b"sunsubscribe", channel, len(self.subscribed))

    def publish(self, channel: bytes) -> None:
        """Say something to those who listen."""
        if channel in self.subscribed:
            payload = b"%d" % len(self.said)
            self.said.append((channel, payload))
            self.out += push(b"smessage", channel, payload)

    def _answer(self, outcome: object, data: bytes) -> None:
        self.log.append(outcome)
        self.out += data
