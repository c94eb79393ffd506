"""`sync_replicas`: grants wait for room like all other calls, also while they gather."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from redisson_py._stream import stream
from redisson_py._stream.call import Call
from redisson_py._topology.synced import SyncedStream
from tests.fixtures.client import ClientFactory
from tests.support.streams import stream_of
from tests.support.waiting import until_async
from tests.topology.conftest import Pair

ROOM = 10


async def test_no_more_grants_are_asked_for_than_there_is_room_for(
    pair: Pair, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    async with client.get_lock("first"):
        pass
    monkeypatch.setattr(stream, "MAX_IN_FLIGHT", ROOM)
    grants = cast("SyncedStream", stream_of(client)).grants
    send, counts = grants.send, list[int]()

    def watched(call: Call) -> Call:
        assert grants._wire is not None
        counts.append(len(grants._wire.in_flight) + len(grants._backlog))
        return send(call)

    monkeypatch.setattr(grants, "send", watched)
    await pair.freeze()
    tasks = [asyncio.create_task(client.get_lock(f"k{n}").acquire()) for n in range(6 * ROOM)]
    await until_async(pair.blocked)
    await client.ping()
    assert not any(task.done() for task in tasks)
    await pair.servers.thaw(pair.replicas[0])
    for lease in await asyncio.gather(*tasks):
        await lease.release()
    # A WAIT may come between a caller that was let in and its call.
    assert ROOM - 1 <= max(counts) <= ROOM
