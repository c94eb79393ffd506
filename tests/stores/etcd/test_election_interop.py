"""Our elections are those of Go's `concurrency.Election`, and of `etcdctl elect`."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import AcquireTimeoutError
from redisson_py.etcd import Election, Leader
from tests.stores import workers
from tests.stores.backends import Backend
from tests.stores.election_support import Observer, leading, queued
from tests.stores.etcd.server import Etcdctl, EtcdServer
from tests.stores.workers import Worker, WorkerError

pytestmark = pytest.mark.usefixtures("no_polls")


async def test_go_waits_for_us_and_we_for_go(go: Worker, election: Election, name: str) -> None:
    async with election.campaign("ours") as first:
        assert await go.leader(name) == ("ours", first.token)
        assert not await go.campaign(name, "go", wait=0.2)
        waiting = asyncio.create_task(go.campaign(name, "go"))
        await queued(election, 1)
        await first.proclaim("ours-2")
        assert await go.leader(name) == ("ours-2", first.token)
    assert await waiting
    found = await election.leader()
    assert found is not None
    assert found.text == "go"
    assert found.token > first.token
    with pytest.raises(AcquireTimeoutError):
        async with election.campaign("ours", timeout=0):
            pytest.fail("two lead")
    async with leading(election, "ours-3") as elected:
        await go.proclaim(name, "go-2")
        assert await election.leader() == Leader(b"go-2", found.token)
        snapshot = await election.inspect()
        assert snapshot.holders[0].owner == (await go.candidate(name)).rpartition("/")[2]
        await go.resign(name)
        last = await elected
        assert await go.leader(name) == ("ours-3", last.token)
    with pytest.raises(WorkerError, match="no leader"):
        await go.leader(name)


async def test_both_observe_both(go: Worker, election: Election, name: str) -> None:
    async with Observer(election) as observer:
        theirs = None
        for number in range(2):
            async with election.campaign(f"ours-{number}") as leadership:
                await observer.saw_last(f"ours-{number}")
                if theirs is None:
                    theirs = asyncio.create_task(go.observe(name, "end"))
                    waiting = asyncio.create_task(go.campaign(name, "go"))
                    await queued(election, 1)
                await leadership.proclaim(f"ours-{number}-new")
                await observer.saw_last(f"ours-{number}-new")
            if number == 0:
                assert await waiting
                await observer.saw_last("go")
                await go.proclaim(name, "go-new")
                await observer.saw_last("go-new")
                await go.resign(name)
            await observer.saw_last(None)
        assert await go.campaign(name, "end")
        await observer.saw_last("end")
        assert theirs is not None
        said = await theirs
        first, second = ["ours-0", "ours-0-new", "go", "go-new"], ["ours-1", "ours-1-new"]
        assert observer.seen == [None, *first, None, *second, None, "end"]
        # Go's may miss what lasted shortly, and sees the rest in its order.
        assert [each for each in (*first, *second, "end") if each in said] == said
        await go.resign(name)


async def test_a_leader_of_go_that_dies_is_followed(
    backend: Backend, election: Election, name: str
) -> None:
    with workers.theirs("etcd", backend, session=3) as dying:
        assert await dying.campaign(name, "go")
        async with Observer(election) as observer, leading(election, "ours") as elected:
            assert not elected.done()
            dying.kill()
            async with asyncio.timeout(30):
                await elected
            await observer.saw("go", "ours")


async def test_one_of_our_leaders_that_dies_is_followed_by_go(
    backend: Backend, go: Worker, election: Election, name: str
) -> None:
    with workers.ours("etcd", backend, session=3) as dying:
        assert await dying.acquire(f"election:{name}", wait=30)
        async with Observer(election) as observer:
            theirs = asyncio.create_task(go.observe(name, "go"))
            waiting = asyncio.create_task(go.campaign(name, "go"))
            await queued(election, 1)
            dying.kill()
            assert await waiting
            await observer.saw("ours", "go")
            assert (await theirs)[-1] == "go"
        await go.resign(name)


async def test_etcdctl_and_we_alternate(server: EtcdServer, election: Election, name: str) -> None:
    async with Etcdctl(server, "elect", "-l", name) as listening:
        async with election.campaign("ours") as leadership:
            key = f"{name}/{leadership.owner}"
            assert [await listening.read_row() for _ in range(2)] == [key, "ours"]
            await leadership.proclaim("ours-2")
            assert [await listening.read_row() for _ in range(2)] == [key, "ours-2"]
            async with Etcdctl(server, "elect", name, "theirs") as candidate:
                await queued(election, 1)
                await leadership.release()
                their_key = await candidate.read_row()
                assert await candidate.read_row() == "theirs"
                assert [await listening.read_row() for _ in range(2)] == [their_key, "theirs"]
                found = await election.leader()
                assert found is not None
                assert found.text == "theirs"
                async with leading(election, "ours-3") as elected:
                    await candidate.leave()
                    last = await elected
                    last_key = f"{name}/{last.owner}"
                    assert [await listening.read_row() for _ in range(2)] == [last_key, "ours-3"]
    assert server.keys(f"{name}/") == []
