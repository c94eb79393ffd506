"""Sends plain commands that read: pipelined, and at a limited rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import anyio

from redisson_py import BackendError, ConnectionLostError, Redisson, ScriptError
from redisson_py._client import context_of, where_of
from redisson_py._keys import SLOTS, Name, key_slot
from redisson_py._redis.stream.router import SingleRouter
from redisson_py._time import now

#: Commands that leave in one write.
BATCH = 64

Argument = str | bytes | int
#: The key that decides the server, as bytes, then the words.
Command = tuple[Argument, ...]


class Asker:
    """Sends commands that read.

    Args:
        client: The client whose connections are used.
        rate: The most commands a second, on average; None for as many as are answered.
    """

    def __init__(self, client: Redisson, rate: float | None = None) -> None:
        self.client = client
        self._context = context_of(client)
        self.rate = rate
        self._free_at = 0.0

    @property
    def prefix(self) -> str:
        """What the client puts before every name."""
        return self._context.options.names.prefix

    @property
    def where(self) -> str:
        """The address that the user gave, without any secret."""
        return where_of(self.client)

    @property
    def in_cluster(self) -> bool:
        """Whether the servers are a cluster."""
        return self._context.options.names.in_cluster

    def key(self, name: Name) -> bytes:
        """Return the key of a name.

        Raises:
            ValueError: No resource can have this name.
        """
        return self._context.options.names.key(name)

    async def ask(self, key: bytes, *words: Argument) -> Any:
        """Return the reply to one command.

        Raises:
            ScriptError: The server refused it.
            ConnectionLostError: The server did not answer within `command_timeout`.
        """
        (reply,) = await self.ask_all([(key, *words)])
        if isinstance(reply, ScriptError):
            raise reply
        return reply

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the reply to each command; a `ScriptError` stands for a refusal.

        Raises:
            ConnectionLostError: A server did not answer within `command_timeout`.
        """
        replies = await self.try_all(commands)
        for reply in replies:
            if isinstance(reply, BackendError) and not isinstance(reply, ScriptError):
                raise reply
        return replies

    async def try_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the reply to each command; an error stands for a refusal, or for no answer."""
        replies: list[Any] = []
        for start in range(0, len(commands), BATCH):
            replies += await self._try_batch(commands[start : start + BATCH])
        return replies

    async def _try_batch(self, commands: Sequence[Command]) -> list[Any]:
        await self._pace(len(commands))
        executor = self._context.executor
        calls = [executor.command(_bytes(key), *words) for key, *words in commands]
        replies: list[Any] = []
        try:
            for call in calls:
                try:
                    replies.append(await executor.answer(call))
                except BackendError as error:
                    replies.append(error)
        finally:
            for call in calls:
                # If this was cancelled, nobody reads the other replies.
                call.future.cancel()
        return replies

    async def _pace(self, commands: int) -> None:
        """Wait until these commands may be sent."""
        if self.rate is None:
            return
        present = now()
        begins = max(present, self._free_at)
        self._free_at = begins + commands / self.rate
        await anyio.sleep(begins - present)

    async def servers(self) -> dict[str, bytes]:
        """Return the address of each master, with a key that it serves.

        Raises:
            ConnectionLostError: The map of a cluster is not known, or the one server is away.
        """
        router = self._context.executor.router
        try:
            await self.client.ping()
        except ConnectionLostError:
            # One master of a cluster may be away: then only its commands fail.
            if len(router.streams()) == 1:
                raise
        if isinstance(router, SingleRouter):
            return {router.only.where: b"0"}
        return {router.stream_for(key).where: key for key in _key_of_each_slot()}

    def server_of(self, key: bytes) -> str:
        """Return the address of the server that serves a key, as far as is known."""
        return self._context.executor.router.stream_for(key).where


def _bytes(key: Argument) -> bytes:
    assert isinstance(key, bytes)
    return key


@cache
def _key_of_each_slot() -> tuple[bytes, ...]:
    """Return keys such that each slot of a cluster has one."""
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < SLOTS:
        key = b"%d" % number
        found.setdefault(key_slot(key), key)
        number += 1
    return tuple(found.values())
