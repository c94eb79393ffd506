"""Our elections are those of Curator's LeaderSelector: both stand for one and follow each other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, Election, Leader
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.election_support import Observer, leading, queued
from tests.stores.workers import Worker

_numbers = itertools.count(1)

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture
def path() -> str:
    return f"/leaders/{next(_numbers)}"


@pytest.fixture
def curator(backend: Backend) -> Iterator[Worker]:
    try:
        worker = workers.theirs("zookeeper", backend)
    except ProgramNotFoundError as error:
        unavailable(str(error))
    with worker:
        yield worker


@pytest.fixture
def election(client: Any, path: str) -> Election:
    made: Election = client.get_election(path)
    return made


async def test_curator_waits_for_us_and_we_for_curator(
    curator: Worker, election: Election, path: str
) -> None:
    async with Observer(election) as observer:
        async with election.campaign("ours") as first:
            await observer.saw_last("ours")
            assert await curator.leader(path) == ("ours", 1)
            assert not await curator.campaign(path, "theirs", wait=0.3)
            waiting = asyncio.create_task(curator.campaign(path, "theirs"))
            await queued(election, 1)
            await first.proclaim("ours-2")
            await observer.saw_last("ours-2")
            assert await curator.leader(path) == ("ours-2", 1)
        assert await waiting
        await observer.saw_last("theirs")
        found = await election.leader()
        assert found is not None
        assert (found.text, found.token > first.token) == ("theirs", True)
        with pytest.raises(AcquireTimeoutError):
            await election.acquire("ours-3", timeout=0)
        async with leading(election, "ours-3") as elected:
            snapshot = await election.inspect()
            assert [each.owner for each in snapshot.holders] == ["theirs"]
            await curator.resign(path)
            last = await elected
            assert await curator.leader(path) == ("ours-3", 1)
            assert await election.leader() == Leader(b"ours-3", last.token)
            assert last.token > found.token
        await observer.saw_last(None)


async def test_a_leader_of_curator_that_dies_is_followed(
    backend: Backend, election: Election, path: str
) -> None:
    with workers.theirs("zookeeper", backend, session=4) as dying:
        assert await dying.campaign(path, "theirs")
        async with Observer(election) as observer, leading(election, "ours") as elected:
            assert not elected.done()
            dying.kill()
            async with asyncio.timeout(60):
                await elected
            await observer.saw_last("ours")


async def test_one_of_our_leaders_that_dies_is_followed_by_curator(
    backend: Backend, curator: Worker, election: Election, path: str
) -> None:
    with workers.ours("zookeeper", backend, session=4) as dying:
        assert await dying.acquire(f"election:{path}", wait=30)
        async with Observer(election) as observer:
            await observer.saw_last("ours")
            waiting = asyncio.create_task(curator.campaign(path, "theirs", wait=60))
            await queued(election, 1)
            dying.kill()
            assert await waiting
            await observer.saw_last("theirs")
        await curator.resign(path)
