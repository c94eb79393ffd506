"""The same steps on a real Valkey and on the simulated one, compared byte for byte.

Nothing is normalized, times included. Valkey's time stands still within a transaction: the moment
that TIME tells in one is the moment of the script behind it. The simulated server's clock is set
to that moment before it executes the same call.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from redisson_py._redis.scripts.source import load_all
from redisson_py.testing._asking import packed
from redisson_py.testing._resp_frames import RespFramer
from tests.simulation.server.server import Server
from tests.simulation.server.session import Session
from tests.simulation.server.steps import Command, Steps

_LOOKS = {
    b"+string\r\n": (b"GET",),
    b"+hash\r\n": (b"HGETALL",),
    b"+list\r\n": (b"LRANGE", b"0", b"-1"),
    b"+zset\r\n": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
}
#: The message behind all others.
_END = b"the end"
_LAST = b"$7\r\nthe end\r\n"
#: Steps that are shown with a difference.
_SHOWN = 12


class Link:
    """A connection to the real server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._framer = RespFramer()
        self._frames: deque[bytes] = deque()

    def send(self, *commands: Command) -> None:
        """Send commands."""
        self._socket.sendall(b"".join(packed(command) for command in commands))

    def next(self) -> bytes:
        """Return the bytes of the next reply or message."""
        while not self._frames:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._frames += [frame.data for frame in self._framer.feed(data)]
        return self._frames.popleft()

    def ask(self, *command: bytes) -> bytes:
        """Return the reply to a command."""
        self.send(command)
        return self.next()

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class Twins:
    """A real and a simulated server with the same keys, and one connection to each.

    Attributes:
        real: The connection to the real one.
        server: The simulated one.
        session: Its side of the connection, and `sent` what it sent there.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.real = Link(url)
        self.now_us = 0
        self.server = Server(lambda: self.now_us)
        self.sent: list[bytes] = []
        self.session = self.connect(self.sent)
        self.played: deque[tuple[Command, bytes]] = deque(maxlen=_SHOWN)
        for command in (b"FLUSHALL",), (b"SCRIPT", b"FLUSH"):
            assert self.both(*command) == b"+OK\r\n"
        for script in load_all():
            assert self.both(b"SCRIPT", b"LOAD", script.text.encode())[:1] == b"$"

    def connect(self, sent: list[bytes]) -> Session:
        """Return a connection of the simulated server that notes what is sent."""
        return self.server.session(sent.append, lambda: None)

    def both(self, *command: bytes) -> bytes:
        """Execute a command that time does not change on both, and return the reply of both."""
        return self._same(command, self.real.ask(*command))

    def play(self, *command: bytes) -> bytes:
        """Execute a command on both at the same moment, and return the reply of both."""
        self.real.send((b"MULTI",), (b"TIME",), command, (b"EXEC",))
        for expected in b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n":
            assert self.real.next() == expected, command
        *_, seconds, _, microseconds, theirs = self.real.next().split(b"\r\n", 6)
        self.now_us = int(seconds) * 1_000_000 + int(microseconds)
        return self._same(command, theirs)

    def set_clock(self) -> None:
        """Set the simulated server's clock to that of the real one, about."""
        *_, seconds, _, microseconds, _ = self.real.ask(b"TIME").split(b"\r\n")
        self.now_us = int(seconds) * 1_000_000 + int(microseconds)

    def _same(self, command: Command, theirs: bytes) -> bytes:
        self.sent.clear()
        self.session.execute(command)
        ours = b"".join(self.sent)
        if ours != theirs:
            steps = "\n".join(f"{each} -> {reply!r}" for each, reply in self.played)
            raise AssertionError(f"{steps}\n{command}\nreal:      {theirs!r}\nsimulated: {ours!r}")
        self.played.append((command, ours))
        return ours

    def play_seed(self, seed: int, count: int) -> int:
        """Play random steps, and compare the messages and the keys that they left.

        Returns:
            How many replies were compared.
        """
        steps = Steps(seed, self.server)
        heard: list[bytes] = []
        listener = self.connect(heard)
        with self._listening(steps.channels) as real:
            listener.execute((b"HELLO", b"3"))
            listener.execute((b"SUBSCRIBE", *steps.channels))
            heard.clear()
            replies = 0
            for command in steps.draw(count):
                self.play(*command)
                replies += 1
            self.play(b"PUBLISH", steps.channels[0], _END)
            from_real = [real.next()]
            while not from_real[-1].endswith(_LAST):
                from_real.append(real.next())
            assert heard == from_real, f"messages\nreal:      {from_real}\nsimulated: {heard}"
        listener.end()
        return replies + 1 + self.compare_keys()

    def compare_keys(self) -> int:
        """Compare all keys, their values and how long they live; return how many replies."""
        self.real.send((b"MULTI",), (b"TIME",), (b"KEYS", b"*"), (b"EXEC",))
        for _ in range(3):
            self.real.next()
        *_, seconds, _, microseconds, theirs = self.real.next().split(b"\r\n", 6)
        self.now_us = int(seconds) * 1_000_000 + int(microseconds)
        keys = self.server.keys()
        lengths = sum(len(b"$%d\r\n%b\r\n" % (len(key), key)) for key in keys)
        head = b"*%d\r\n" % len(keys)
        same = theirs.startswith(head) and len(theirs) == len(head) + lengths
        assert same, f"keys\nreal:      {theirs!r}\nsimulated: {keys}"
        for key in keys:
            kind = self.play(b"TYPE", key)
            self.play(b"PTTL", key)
            if kind in _LOOKS:
                word, *arguments = _LOOKS[kind]
                self.play(word, key, *arguments)
        return 1 + 3 * len(keys)

    @contextmanager
    def _listening(self, channels: list[bytes]) -> Iterator[Link]:
        link = Link(self._url)
        try:
            link.ask(b"HELLO", b"3")
            link.send((b"SUBSCRIBE", *channels))
            for _ in channels:
                link.next()
            yield link
        finally:
            link.close()

    def close(self) -> None:
        """Close the connection."""
        self.real.close()
