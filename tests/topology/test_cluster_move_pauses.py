"""Calls that wait because their slot moves: for how long at most, and what ends their pause."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from redisson_py import Redisson
from redisson_py._redis.stream import stream as streams
from redisson_py._redis.stream.retry import MOVE_PAUSE_SECONDS, longest_pause
from redisson_py._retry import pause_before
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until

#: Replies of servers while a slot moves, or its new master is not known everywhere.
MOVING = (
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "ASK 7 127.0.0.1:7001",
    "MOVED 7 127.0.0.1:7001",
    "CLUSTERDOWN Hash slot not served",
    "ERR Error running script (call to f_1): @user_script:1: -TRYAGAIN Multiple keys",
    "ERR Script attempted to access a non local key in a cluster node script: f_1",
)
OTHERS = (
    "CLUSTERDOWN The cluster is down",
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script.",
)

#: Seconds of a pause that no test waits for.
FOR_EVER = 3600.0


@pytest.mark.parametrize("text", MOVING)
def test_a_pause_of_a_move_stays_short_unless_many_wait(text: str) -> None:
    assert MOVE_PAUSE_SECONDS == 0.05
    for attempt, waiting in itertools.product((0, 3, 10, 1000), (0, 1, 50)):
        assert pause_before(attempt, longest_pause(text, waiting)) <= MOVE_PAUSE_SECONDS
    # A thousand repetitions a second for a server, by however many calls.
    for waiting in (100, 500, 1000):
        assert longest_pause(text, waiting) == waiting / 1000
    assert longest_pause(text, 5000) == 1.0


@pytest.mark.parametrize("text", OTHERS)
def test_other_pauses_grow_to_a_second(text: str) -> None:
    assert longest_pause(text, 0) == 1.0
    assert max(pause_before(10, longest_pause(text, 0)) for _ in range(100)) > 0.5


def paused(client: Redisson, where: str) -> int:
    """Return how many calls wait out a pause at a node."""
    count = 0
    for stream in client._router.streams():
        if stream.where == where:
            count += sum(len(each._delayed) for each in stream.pair)
    return count


@pytest.mark.parametrize("replicas", [0, 1])
async def test_the_new_map_ends_the_pauses_of_calls_at_either_node(
    replicas: int,
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder, client = (
        clients(cluster.url),
        clients(cluster.url, command_timeout=30, sync_replicas=replicas),
    )
    held = [await holder.get_semaphore(name, 2).acquire() for name in ("{x}half", "{x}whole")]
    migration = await cluster.begin_migration("{x}")
    source, target = migration.source.address, migration.target.address
    # A call for several keys is refused here while one of them is there, and there while one is
    # missing.
    keys = await migration.keys()
    await migration.move_keys("{x}half", *[key for key in keys if "whole" in key])
    monkeypatch.setattr(streams, "pause_before", lambda attempt, longest=0.0: FOR_EVER)
    calls = [
        asyncio.create_task(client.get_semaphore(name, 2).try_acquire())
        for name in ("{x}half", "{x}whole")
    ]
    await until(lambda: paused(client, source) == paused(client, target) == 1)
    await migration.finish()
    # Its answer is what tells the client of the new master.
    assert not await client.get_lock("{x}other").locked()
    permits = await asyncio.gather(*calls)
    for permit in (*held, *permits):
        assert permit is not None
        await permit.release()
