"""Looks at the servers over connections of its own, now and then and when all is quiet.

What it sees is the history of the process `probe`, in the words of `checkers.probes`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redisson_py import Redisson, RedissonError
from redisson_py.testing import EmbeddedServer
from tests.jepsen.checkers.probes import QUIET
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.field import Field
from tests.jepsen.history import Outcome, Recorder

#: Seconds between two looks while the workers work, and while leases of killed ones run out.
_NOW_AND_THEN, _SOON = 0.5, 0.1
#: Seconds after which what is still there is left behind, though it were to expire one day.
_PATIENCE = 20.0
#: The channel by which sentinels know each other.
_OF_SENTINELS = "__sentinel__:hello"
#: How workloads name what has a fair queue, semaphores, and those of them whose permits have ids.
_FAIR = ("fair", "election")
_SEMAPHORES, _WITH_IDS = ("semaphore", "permits", "expirable"), ("permits", "expirable")

#: The owner and the lease of a lock. In a cluster its slot may be elsewhere.
_LEASE = """
local content = redis.pcall('hgetall', ARGV[1])
if content['err'] then return {-3, ''} end
return {redis.call('pttl', ARGV[1]), content[1] or ''}
"""
#: All keys, without records that expire by themselves within a minute.
_KEYS = """
local names, leases = {}, 0
for _, key in ipairs(redis.call('keys', '*')) do
    local left = redis.call('pttl', key)
    if left == -1 or not string.find(key, ':redisson_py:', 1, true) then
        names[#names + 1] = key
    end
    if left >= 0 and not string.find(key, ':redisson_py:', 1, true) then leases = leases + 1 end
end
return {names, leases}
"""


#: The owners of holds, and of units and places in queues that still count. Those that died stay
#: until somebody comes, Redisson's times of a queue say nothing of life, and who came last to a
#: barrier is only remembered.
_OWNERS = """
local found, time = {}, redis.call('TIME')
local present = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
for _, key in ipairs(redis.call('keys', '*')) do
    local kind = redis.call('type', key)['ok']
    local ours = string.find(key, ':redisson_py:', 1, true)
    if kind == 'hash' and not ours then
        found[#found + 1] = {key, redis.call('hkeys', key)}
    elseif kind == 'zset' and ours and not string.find(key, ':released', ours, true) then
        found[#found + 1] = {key, redis.call('zrangebyscore', key, present, '+inf')}
    end
end
return found
"""


#: The rounds that barriers remember, each with the moment in milliseconds until which somebody may
#: ask for it, and named after the microsecond in which it began, or one of the next. The other
#: members are the owners that came last.
_ROUNDS = """
local found = {}
for _, key in ipairs(redis.call('keys', '*:redisson_py:released')) do
    local members, newest, number, over = redis.call('zrange', key, 0, -1, 'withscores'), 0, 0, 0
    for place = 1, #members, 2 do newest = math.max(newest, tonumber(members[place]) or 0) end
    for place = 1, #members, 2 do
        if tonumber(members[place]) then
            number = number + 1
            if tonumber(members[place + 1]) + 1 < newest / 1000 then over = over + 1 end
        end
    end
    found[#found + 1] = {key, number, over}
end
return found
"""


class Probe:
    """Records what the servers of a field have."""

    def __init__(self, field: Field, folder: Path, objects: Sequence[str], facts: Facts) -> None:
        self._field = field
        self._record = Recorder(folder, "probe")
        self._objects = [name for name in objects if not name.startswith(_SEMAPHORES)]
        self._limits = {
            name: limit for name, limit in facts.limits.items() if name.startswith(_SEMAPHORES)
        }

    async def keep_looking(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(_NOW_AND_THEN)
            masters = await self._field.masters()
            if len(masters) > 1 and self._field.topology is None:
                continue  # what a quorum has need not be on each of them
            for server in masters:
                for obj in self._objects:
                    await self._lease(server, obj, alone=len(masters) == 1)

    async def ended(self) -> None:
        """Look at who still has something now that all workers have ended."""
        for server in await self._field.masters():
            for key, owners in await self._field.tell(server, "EVAL", _OWNERS, 0) or ():
                self._record.note("probe", key, "now", rid="owners", value=owners)
            for key, rounds, finished in await self._field.tell(server, "EVAL", _ROUNDS, 0) or ():
                self._record.note("probe", key, "now", rid="rounds", value=rounds, n=finished)

    async def quiet(self) -> None:
        """Look at what is left when leases of workers that were killed have run out."""
        async with Redisson.from_url(self._field.urls[0]) as client:
            await self._visit(client)
            await self._available(client)
        for server in await self._field.masters():
            end = time.monotonic() + _PATIENCE
            while True:
                keys = await self._field.tell(server, "EVAL", _KEYS, 0)
                channels = await self._channels(server)
                clean = keys is not None and not keys[1] and not channels
                if clean or time.monotonic() > end:
                    break
                await asyncio.sleep(_SOON)
            self._note_quiet("keys", server, None if keys is None else sorted(keys[0]))
            self._note_quiet("channels", server, channels)

    def _note_quiet(self, what: str, server: EmbeddedServer, names: list[str] | None) -> None:
        out: Outcome = "fail" if names is None else "ok"
        number = 0 if names is None else len(names)
        where = server.address
        self._record.note("probe", where, QUIET, out, rid=what, value=names, n=number)

    async def _lease(self, server: EmbeddedServer, obj: str, *, alone: bool) -> None:
        number = self._record.invoke("probe", obj, "now", rid="lease")
        found = await self._field.tell(server, "EVAL", _LEASE, 0, obj)
        if found is None or found[0] == -3 or (found[0] == -2 and not alone):
            self._record.complete(number, "fail")
        else:
            self._record.complete(number, n=found[0], owner=found[1])

    async def _channels(self, server: EmbeddedServer) -> list[str] | None:
        found = await self._field.tell(server, "PUBSUB", "CHANNELS")
        # Only a cluster has sharded ones, and Redis 6.2 not even that.
        sharded = await self._field.tell(server, "PUBSUB", "SHARDCHANNELS")
        return None if found is None else sorted({*found, *(sharded or [])} - {_OF_SENTINELS})

    async def _visit(self, client: Redisson) -> None:
        """Enter each fair queue once: whoever comes next removes the waiters that died."""
        for obj in self._objects:
            if obj.startswith(_FAIR):
                with suppress(RedissonError):
                    async with client.get_fair_lock(obj).hold(timeout=_PATIENCE):
                        pass

    async def _available(self, client: Redisson) -> None:
        for obj, limit in self._limits.items():
            number = self._record.invoke("probe", obj, QUIET, rid="available")
            result: dict[str, Any] = {"out": "fail"}
            with suppress(RedissonError):
                # The permits of workers that were killed are given back by this call.
                result = {"n": await _available(client, obj, limit)}
            self._record.complete(number, **result)


async def _available(client: Redisson, obj: str, limit: int) -> int:
    if obj.startswith(_WITH_IDS):
        return await client.get_permit_expirable_semaphore(obj, limit).available()
    return await client.get_semaphore(obj, limit).available()


@asynccontextmanager
async def probing(
    field: Field, folder: Path, objects: Sequence[str], facts: Facts
) -> AsyncIterator[Probe]:
    """Look at the servers now and then, for the time of a block."""
    probe = Probe(field, folder, objects, facts)
    looking = asyncio.create_task(probe.keep_looking())
    try:
        yield probe
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
