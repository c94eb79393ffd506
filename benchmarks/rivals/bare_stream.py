"""The limit of any client in pure Python: a socket, hiredis and a future a call.

It sends what an uncontended acquire and release of ours send, EVALSHA with the same keys and
arguments under a fresh owner, and does nothing else: no watchdog, no queue of tasks, no deadlines,
no cancellation, no reconnection, no errors. `scenarios/same_commands.py` checks at the beginning
of a run that both send the same. `BareStreamLeast` sends the least scripts that a lock needs.

Three things make it fast. What is the same in every call of a name is packed once, so that one
formatting operation makes a call. The calls of one turn of the loop leave in one write. While the
server has little to do, `_EARLY` calls leave at once, so that it works while the others are made.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hiredis

from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import TaskSide
from redisson_py import _keys
from redisson_py._owner import numbered
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts import source
from redisson_py._redis.stream.handshake import dialect_of

_ACQUIRE = source.load("lock.acquire")
_RELEASE = source.load("lock.release")
#: The least that Redisson's lock needs, without re-entry, repeats, versions, or a queue.
_LEAST_ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 1 then
    return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return nil
"""
_LEAST_RELEASE = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return nil
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '0')
return 1
"""
_NOTHING = object()
#: What the scripts take at their end; zeros for a hold that is acquired once.
_VERSION = ("version", "version_ms")
_EARLY = 32
# hiredis' stubs give this function one argument too few and no result.
_pack: Any = hiredis.pack_command


class BareStream(TaskSide, asyncio.Protocol):
    """One connection; replies resolve futures first in, first out."""

    async def open(self, url: str) -> None:
        """Connect and load the scripts."""
        # The arguments below stand for these; a script that takes others must show here.
        common = ("lock", "tombstone", "version_key", "clients", "owner", "holds", "lease_ms")
        asks = ("needs", "channel", "client", "yields")
        assert _ACQUIRE.keys + _ACQUIRE.args == (*common, *_VERSION, *asks)
        assert _RELEASE.keys + _RELEASE.args == (*common, "channel", "tombstone_ms", *_VERSION)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._flushing = False
        self.client_id = str(uuid.uuid4())
        self.owners = 0
        self.messages = 0
        self.more: asyncio.Future[None] | None = None
        self.loop = asyncio.get_running_loop()
        server = urlsplit(url)
        self.transport, _ = await self.loop.create_connection(
            lambda: self, str(server.hostname), server.port or 6379
        )
        facts = await self.call(("HELLO", "3"))
        dialect = dialect_of(facts)
        self.acquire_sha, self.release_sha = [
            (await self.call(("SCRIPT", "LOAD", text))).decode() for text in self._texts(dialect)
        ]

    def _texts(self, dialect: Dialect) -> list[str]:
        return [script.wordings[dialect].text for script in (_ACQUIRE, _RELEASE)]

    async def close(self) -> None:
        """Disconnect."""
        self.transport.close()

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return what two processes can hand to each other, and nobody else can use."""
        return _Alternating(self, name)

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """As every side, spelled out: even one more coroutine a call would be felt."""
        assert kind == LOCK
        put, forms = self.put, self._forms(name)
        acquire, release = forms.acquire, forms.release
        tombstone, version = forms.tombstone, forms.version
        prefix = numbered(self.client_id, "")
        done = 0
        while not done or perf_counter() < end:
            self.owners += 1
            owner = (prefix + str(self.owners)).encode()
            size = len(owner)
            owned = (tombstone + size, owner, version + size, owner, size, owner)
            await put(acquire % owned)
            await put(release % owned)
            done += 1
        return done

    def _forms(self, name: str) -> _Forms:
        key = name.encode()
        channel, clients = _keys.lock_channel(key), _keys.waiting_clients(key)
        tombstone, version = _keys.tombstone(key, ""), _keys.version_key(key, "")

        def owned(start: bytes) -> bytes:
            return b"$%d\r\n" + _plain(start) + b"%b\r\n"

        def form(sha: str, *arguments: bytes) -> bytes:
            head = b"".join(map(_bulk, (b"EVALSHA", sha.encode(), b"4", key)))
            keys = owned(tombstone) + owned(version) + _plain(_bulk(clients))
            tail = b"".join(map(_bulk, arguments))
            return (
                b"*%d\r\n" % (8 + len(arguments)) + _plain(head) + keys + owned(b"") + _plain(tail)
            )

        return _Forms(
            form(self.acquire_sha, b"1", b"30000", b"0", b"0", b"", channel, b"", b"0"),
            form(self.release_sha, b"0", b"30000", channel, b"0", b"0", b"0"),
            len(tombstone),
            len(version),
        )

    def call(self, args: tuple[bytes | str | int, ...]) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply."""
        return self.put(_pack(args))

    def put(self, packed: bytes) -> asyncio.Future[Any]:
        """Send a command that is packed; the future gets its reply."""
        future = self.loop.create_future()
        out, waiting = self._out, self._waiting
        waiting.append(future)
        out.append(packed)
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)
        elif len(out) >= _EARLY >= len(waiting) - len(out):
            self._write()
        return future

    def _flush(self) -> None:
        self._flushing = False
        if self._out:
            self._write()

    def _write(self) -> None:
        out = self._out
        self.transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def data_received(self, data: bytes) -> None:
        """Resolve the futures of the calls that are answered."""
        reader, waiting = self._reader, self._waiting
        reader.feed(data)
        gets = reader.gets
        while (reply := gets()) is not _NOTHING:
            kind = type(reply)
            if kind is hiredis.PushNotification:
                self._pushed(reply)
            elif kind is hiredis.ReplyError:
                raise reply
            else:
                waiting.popleft().set_result(reply)

    def _pushed(self, push: list[bytes]) -> None:
        if push[0] == b"message":
            self.messages += 1
            if self.more is not None and not self.more.done():
                self.more.set_result(None)


class BareStreamPacking(BareStream):
    """The same, but hiredis packs every call, and they leave when the turn of the loop ends."""

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """As every side."""
        assert kind == LOCK
        put, acquire, release = self._put_for_later, self.acquire_sha, self.release_sha
        key = name.encode()
        channel, clients = _keys.lock_channel(key), _keys.waiting_clients(key)
        tombstones, versions = _keys.tombstone(key, ""), _keys.version_key(key, "")
        done = 0
        while not done or perf_counter() < end:
            self.owners += 1
            owner = numbered(self.client_id, self.owners).encode()
            keys = (4, key, tombstones + owner, versions + owner, clients)
            await put(("EVALSHA", acquire, *keys, owner, 1, 30000, 0, 0, b"", channel, b"", 0))
            await put(("EVALSHA", release, *keys, owner, 0, 30000, channel, 0, 0, 0))
            done += 1
        return done

    def _put_for_later(self, args: tuple[bytes | str | int, ...]) -> asyncio.Future[Any]:
        future = self.loop.create_future()
        self._waiting.append(future)
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(_pack(args))
        return future


class BareStreamLeast(BareStream):
    """The same stream with the least scripts that a lock needs, with one key each."""

    def _texts(self, dialect: Dialect) -> list[str]:
        return [_LEAST_ACQUIRE, _LEAST_RELEASE]

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """As every side."""
        assert kind == LOCK
        put, key = self.put, name.encode()
        head = b"*6\r\n" + _bulk(b"EVALSHA")
        acquire, release = (
            _plain(head + _bulk(sha.encode()) + _bulk(b"1") + _bulk(key))
            + b"$%d\r\n%b\r\n"
            + _plain(_bulk(last))
            for sha, last in (
                (self.acquire_sha, b"30000"),
                (self.release_sha, _keys.lock_channel(key)),
            )
        )
        prefix = numbered(self.client_id, "")
        done = 0
        while not done or perf_counter() < end:
            self.owners += 1
            owner = (prefix + str(self.owners)).encode()
            owned = (len(owner), owner)
            await put(acquire % owned)
            await put(release % owned)
            done += 1
        return done


class _Forms(NamedTuple):
    """What the calls of one name have in common.

    Attributes:
        acquire: A format of tombstone key, version key and owner, each after its length.
        release: The same.
        tombstone: The length of a tombstone key without its owner.
        version: The length of a version key without its owner.
    """

    acquire: bytes
    release: bytes
    tombstone: int
    version: int


def _bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def _plain(text: bytes) -> bytes:
    """Return a format that stands for nothing but itself."""
    return text.replace(b"%", b"%%")


class _Alternating(AbstractAsyncContextManager[None]):
    """The least that hands a lock from one process to another: a message, a question.

    Who released lets the other have it first, whatever happens: with any other number of
    parties than two it stands still.
    """

    def __init__(self, stream: BareStream, name: str) -> None:
        self._stream = stream
        self._key = name.encode()
        self._channel = _keys.lock_channel(self._key)
        self._beyond = -1
        # Its answer is a push, and takes nobody's place.
        stream.transport.write(_pack(("SUBSCRIBE", self._channel)))

    async def __aenter__(self) -> None:
        stream = self._stream
        await self._messages_beyond(self._beyond)
        while True:
            seen = stream.messages
            stream.owners += 1
            self._owner = numbered(stream.client_id, stream.owners)
            arguments = (1, 30000, 0, 0, b"", self._channel, b"", 0)
            if await self._call(stream.acquire_sha, *arguments) is None:
                return
            await self._messages_beyond(seen)

    async def __aexit__(self, *_: object) -> None:
        # The next one is of this release, the one after that of the other's.
        self._beyond = self._stream.messages + 1
        await self._call(self._stream.release_sha, 0, 30000, self._channel, 0, 0, 0)

    def _call(self, sha: str, *more: bytes | int) -> asyncio.Future[Any]:
        key, owner = self._key, self._owner
        own = (_keys.tombstone(key, owner), _keys.version_key(key, owner))
        keys = (4, key, *own, _keys.waiting_clients(key))
        return self._stream.call(("EVALSHA", sha, *keys, owner, *more))

    async def _messages_beyond(self, count: int) -> None:
        stream = self._stream
        while stream.messages <= count:
            stream.more = stream.loop.create_future()
            await stream.more
