"""Looks at the servers over connections of its own, now and then and when all is quiet.

What it sees is the history of the process `probe`; `handle` is the server, `rid` says when
(`running` or `quiet`). An operation `probe` is about

    keys        value: the names of all keys; n: how many (DBSIZE)
    channels    value: the channels that somebody listens to, sharded ones included
    a key       value: its kind, its remaining time in ms (-1: for ever) and its content; n: the
                number in it, if it has one: the available permits of a semaphore
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.history import Recorder

#: Seconds between two looks while the workers work.
_NOW_AND_THEN = 0.5
#: How many keys of a server are looked at, at most.
_MOST = 200
#: The channel by which sentinels know each other.
_OF_SENTINELS = "__sentinel__:hello"
#: One call for all keys, so that what it says was true at one moment.
_LOOK = """
local seen = {}
for i, key in ipairs(redis.call('keys', '*')) do
    if i > tonumber(ARGV[1]) then break end
    local kind, content = redis.call('type', key)['ok'], ''
    if kind == 'string' then content = redis.call('get', key)
    elseif kind == 'hash' then content = redis.call('hgetall', key)
    elseif kind == 'list' then content = redis.call('lrange', key, 0, -1)
    elseif kind == 'zset' then content = redis.call('zrange', key, 0, -1, 'withscores') end
    seen[i] = {key, kind, redis.call('pttl', key), content}
end
return {redis.call('dbsize'), seen}
"""


class Probe:
    """Records what the servers of a field have."""

    def __init__(self, field: Field, folder: Path) -> None:
        self._field = field
        self._record = Recorder(folder, "probe")

    async def look(self, when: str) -> None:
        """Look at every server that takes writes and answers."""
        for server in await self._field.masters():
            await self._keys(server, when)
            await self._channels(server, when)

    async def keep_looking(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(_NOW_AND_THEN)
            await self.look("running")

    async def _keys(self, server: EmbeddedServer, when: str) -> None:
        number = self._record.invoke("probe", "keys", server.address, rid=when)
        found = await self._field.tell(server, "EVAL", _LOOK, 0, _MOST)
        if found is None:
            self._record.complete(number, "fail")
            return
        size, keys = found
        self._record.complete(number, value=sorted(key for key, *_ in keys), n=size)
        for key, kind, remaining, content in keys:
            facts: dict[str, Any] = {"value": [kind, remaining, content]}
            if isinstance(content, str) and content.lstrip("-").isdigit():
                facts["n"] = int(content)
            self._record.note("probe", key, server.address, rid=when, **facts)

    async def _channels(self, server: EmbeddedServer, when: str) -> None:
        number = self._record.invoke("probe", "channels", server.address, rid=when)
        found = await self._field.tell(server, "PUBSUB", "CHANNELS")
        # Only a cluster has sharded ones, and Redis 6.2 not even that.
        sharded = await self._field.tell(server, "PUBSUB", "SHARDCHANNELS")
        if found is None:
            self._record.complete(number, "fail")
            return
        names = {*found, *(sharded or [])} - {_OF_SENTINELS}
        self._record.complete(number, value=sorted(names))


@asynccontextmanager
async def probing(field: Field, folder: Path) -> AsyncGenerator[Probe]:
    """Look at the servers now and then, for the time of a block."""
    probe = Probe(field, folder)
    looking = asyncio.create_task(probe.keep_looking())
    try:
        yield probe
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
