"""The limit of any client in pure Python: a socket, hiredis and a future a call.

It sends what an uncontended acquire and release of ours send, EVALSHA with the same keys and
arguments under a fresh owner, writes once a turn of the loop, and does nothing else: no
watchdog, no line of tasks, no deadlines, no cancellation, no reconnection, no errors.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import hiredis

from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import TaskSide
from redisson_py import _keys
from redisson_py._scripts import source

_ACQUIRE = source.load("lock.acquire")
_RELEASE = source.load("lock.release")
_NOTHING = object()
#: What the scripts take at their end; zeros for a hold that is acquired once.
_VERSION = ("version", "version_ms")
# hiredis' stubs give this function one argument too few and no result.
_pack: Any = hiredis.pack_command


class BareStream(TaskSide, asyncio.Protocol):
    """One connection; replies resolve futures first in, first out."""

    async def open(self, url: str) -> None:
        """Connect and load the scripts."""
        # The arguments below stand for these; a script that takes others must show here.
        common = ("lock", "tombstone", "version_key", "owner", "holds", "lease_ms")
        assert _ACQUIRE.keys + _ACQUIRE.args == (*common, *_VERSION)
        assert _RELEASE.keys + _RELEASE.args == (*common, "channel", "tombstone_ms", *_VERSION)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
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
        modern = int(facts[b"version"].split(b".")[0]) >= 7
        texts = [s.text if modern else s.plain_text for s in (_ACQUIRE, _RELEASE)]
        self.acquire_sha, self.release_sha = [
            (await self.call(("SCRIPT", "LOAD", text))).decode() for text in texts
        ]

    async def close(self) -> None:
        """Disconnect."""
        self.transport.close()

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return what two processes can hand to each other, and nobody else can use."""
        return _Alternating(self, name)

    async def pairs(self, name: str, end: float, kind: str = LOCK) -> int:
        """As every side, spelled out: even one more coroutine a call would be felt."""
        assert kind == LOCK
        call, acquire, release = self.call, self.acquire_sha, self.release_sha
        key = name.encode()
        channel = _keys.lock_channel(key)
        tombstones, versions = _keys.tombstone(key, ""), _keys.version_key(key, "")
        done = 0
        while not done or perf_counter() < end:
            self.owners += 1
            owner = f"{self.client_id}:{self.owners}".encode()
            keys = (3, key, tombstones + owner, versions + owner)
            await call(("EVALSHA", acquire, *keys, owner, 1, 30000, 0, 0))
            await call(("EVALSHA", release, *keys, owner, 0, 30000, channel, 0, 0, 0))
            done += 1
        return done

    def call(self, args: tuple[bytes | str | int, ...]) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply."""
        future = self.loop.create_future()
        self._waiting.append(future)
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(_pack(args))
        return future

    def _flush(self) -> None:
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
            self._owner = f"{stream.client_id}:{stream.owners}"
            if await self._call(stream.acquire_sha, 1, 30000, 0, 0) is None:
                return
            await self._messages_beyond(seen)

    async def __aexit__(self, *_: object) -> None:
        # The next one is of this release, the one after that of the other's.
        self._beyond = self._stream.messages + 1
        await self._call(self._stream.release_sha, 0, 30000, self._channel, 0, 0, 0)

    def _call(self, sha: str, *more: bytes | int) -> asyncio.Future[Any]:
        key, owner = self._key, self._owner
        keys = (3, key, _keys.tombstone(key, owner), _keys.version_key(key, owner))
        return self._stream.call(("EVALSHA", sha, *keys, owner, *more))

    async def _messages_beyond(self, count: int) -> None:
        stream = self._stream
        while stream.messages <= count:
            stream.more = stream.loop.create_future()
            await stream.more
