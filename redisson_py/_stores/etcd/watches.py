"""Watches the keys that waiters wait for, and observers look at: one stream for all of them.

A watch begins at the revision of the answer that made its waiter wait, so it misses no deletion,
whatever happens to the stream meanwhile; it is begun again on another one from the same revision.
Where etcd has dropped that part of its history, or ends a watch, the waiters ask again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import grpc.aio

from redisson_py._loop import end_task
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import Link
from redisson_py._stores.etcd.messages import Message
from redisson_py._time import now
from redisson_py.errors import BackendError

#: Seconds to open a stream in.
_OPENING_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

#: A waiter: a name, and the owner that waits for it.
Waiter = tuple[str, str]
#: Makes the request for a watch of a number, of a key, from a revision on.
How = Callable[[int, bytes, int], Message]


@dataclass(frozen=True, slots=True)
class _Watch:
    number: int
    waiter: Waiter
    key: bytes
    revision: int
    how: How

    @property
    def request(self) -> Message:
        return self.how(self.number, self.key, self.revision)


class _Outgoing:
    """The requests of a stream. Not a generator, which would have to be closed with it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue()
        #: Send a request; None ends the stream.
        self.put: Callable[[Message | None], None] = self._queue.put_nowait

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        request = await self._queue.get()
        if request is None:
            raise StopAsyncIteration
        return request


class Watches:
    """The watches of a client.

    Args:
        link: Where.
        ring: Called with a name that may have become free, and the owner that waits for it.
    """

    def __init__(self, link: Link, ring: Callable[[str, str], object]) -> None:
        self._link = link
        self._ring = ring
        self._last_number = 0
        self._by_number: dict[int, _Watch] = {}
        self._by_waiter: dict[Waiter, _Watch] = {}
        self._outgoing: _Outgoing | None = None
        self._task: asyncio.Task[None] | None = None

    def watches(self, waiter: Waiter) -> bool:
        """Return whether there is a watch for a waiter that has not rung for it."""
        return waiter in self._by_waiter

    def watch(
        self, waiter: Waiter, key: bytes, revision: int, how: How = messages.watch_deletion
    ) -> None:
        """Ring for a waiter when a key is deleted, at this revision or later.

        With another `how` it rings for what that asks etcd to tell.
        """
        present = self._by_waiter.get(waiter)
        if present is not None and (present.key, present.how) == (key, how):
            # It began no later, so it misses nothing.
            return
        self.forget(waiter)
        self._last_number += 1
        watch = _Watch(self._last_number, waiter, key, revision, how)
        self._by_number[watch.number] = self._by_waiter[waiter] = watch
        if self._outgoing is not None:
            self._outgoing.put(watch.request)
        elif self._task is None or self._task.done():
            # An event loop that ends has cancelled every task, and a block that cleans up waits.
            self._task = asyncio.create_task(self._run(), name="redisson_py etcd watch")

    def forget(self, waiter: Waiter) -> None:
        """End the watch of a waiter, if there is one."""
        watch = self._by_waiter.pop(waiter, None)
        if watch is not None:
            del self._by_number[watch.number]
            if self._outgoing is not None:
                self._outgoing.put(messages.cancel_watch(watch.number))

    def clear(self) -> None:
        """End all watches."""
        for each in list(self._by_waiter):
            self.forget(each)

    async def close(self) -> None:
        """End all watches, and the stream."""
        self.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def leave_behind(self) -> None:
        """End all watches, and the stream: the event loop was closed, or ends now."""
        self._outgoing = None
        self.clear()
        task, self._task = self._task, None
        if task is not None:
            end_task(task)

    async def _run(self) -> None:
        """Keep a stream open while there is something to watch."""
        pause = _FIRST_PAUSE
        while self._by_number:
            began = now()
            with suppress(grpc.aio.AioRpcError, OSError, BackendError):
                await self._stream()
            if now() - began > _OPENING_SECONDS:
                pause = _FIRST_PAUSE
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._task = None

    async def _stream(self) -> None:
        """Open a stream, and read it until it breaks.

        Raises:
            OSError: It broke.
            grpc.aio.AioRpcError: Likewise.
            BackendError: etcd refused it.
        """
        connection = self._link.take()
        try:
            metadata = await self._link.metadata(connection, now() + _OPENING_SECONDS)
            if connection.retired:
                raise OSError("the connection failed meanwhile")
            outgoing = _Outgoing()
            stream = connection.channel.stream_stream(
                messages.WATCH.path,
                request_serializer=messages.serialized,
                response_deserializer=messages.WATCH.reply.FromString,
            )(outgoing, metadata=metadata)
            connection.when_retired.append(stream.cancel)
            for each in self._by_number.values():
                outgoing.put(each.request)
            self._outgoing = outgoing
            try:
                async for reply in stream:
                    self._take(reply)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # The stream was cancelled, not we.
            finally:
                self._outgoing = None
                stream.cancel()
                outgoing.put(None)
            raise OSError("the stream ended")
        finally:
            self._link.retire(connection)
            self._link.leave(connection)

    def _take(self, reply: Message) -> None:
        """Take a message of the stream.

        Raises:
            OSError: etcd ended a watch for a reason that is not its own.
        """
        watch = self._by_number.get(reply.watch_id)
        if reply.canceled:
            concerned = list(self._by_number.values()) if reply.watch_id < 0 else [watch]
            for each in concerned:
                if each is not None:
                    self._done(each)
            if any(concerned) and not reply.compact_revision:
                # Such as a token that is too old: the next stream has another.
                raise OSError("etcd ended a watch")
        elif watch is None:
            pass
        elif reply.events:
            self._done(watch)
        elif reply.created and reply.header.revision >= watch.revision:
            # etcd has gone on meanwhile. It looks for what such a watch has missed every 100 ms
            # only; the waiter asks sooner.
            self._ring(*watch.waiter)

    def _done(self, watch: _Watch) -> None:
        self.forget(watch.waiter)
        self._ring(*watch.waiter)
