"""Looking for the master among Sentinels that say what the test tells them."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio.connection import AbstractConnection

from redisson_py._redis.redis_py import Connector
from redisson_py._redis.topology import sentinels as sentinels_module
from redisson_py._redis.topology.finder import SentinelFinder
from tests.support.fake_peer import CUT, SILENCE
from tests.support.waiting import until
from tests.topology.fakes import FakeServer, Scene, Seeker, address_of, connector


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait for a silent Sentinel does not end within a test."""
    monkeypatch.setattr(sentinels_module, "ASK_SECONDS", 30.0)


def all_sentinels(seeker: Seeker) -> int:
    """Return how many Sentinels are listened to."""
    return sum(each.stream.ready and not each.stream.waiting for each in seeker.sentinels)


def count(*servers: FakeServer) -> list[int]:
    """Return how many commands each server got."""
    return [len(server.commands) for server in servers]


async def test_the_master_is_found_and_an_idle_client_leaves_it_alone(scene: Scene) -> None:
    old, new = await scene.server(), await scene.server()
    sentinels = await scene.sentinels(old)
    seeker = await scene.seek(sentinels[0])
    assert "main (Sentinel at" in seeker.finder.where
    await seeker.ask("GET", "a")
    assert seeker.finder.master == address_of(old)
    # The two others were named by the first one; each is listened to.
    await until(lambda: all(each.count(b"SUBSCRIBE") == 1 for each in sentinels))
    assert [each.commands[0] for each in sentinels] == [(b"SUBSCRIBE", b"+switch-master")] * 3
    assert count(old, new) == [1, 0]


@pytest.mark.parametrize("greets", [True, False])
async def test_a_silent_sentinel_costs_nothing(scene: Scene, greets: bool) -> None:
    master = await scene.server()
    silent, *others = await scene.sentinels(master)
    silent.answers = False
    if not greets:
        silent.greeting = SILENCE
    seeker = await scene.seek(silent, *others)
    async with asyncio.timeout(30):
        await seeker.ask("GET", "a")


async def test_the_late_answer_of_one_that_knows_more_is_believed(scene: Scene) -> None:
    old, new = await scene.server(), await scene.server()
    sentinels = await scene.sentinels(old)
    sentinels[2].knows(new, epoch=2)
    sentinels[2].answers = False
    seeker = await scene.seek(*sentinels)
    await seeker.ask("GET", "a")
    assert seeker.finder.master == address_of(old)
    sentinels[2].answer_all()
    await until(lambda: seeker.lefts)
    await seeker.ask("GET", "b")
    assert seeker.finder.master == address_of(new)
    assert new.commands == [(b"GET", b"b")]


async def test_a_message_moves_what_waits_in_order(scene: Scene) -> None:
    old, new = await scene.server(), await scene.server()
    sentinels = await scene.sentinels(old)
    seeker = await scene.seek(*sentinels)
    await seeker.ask("GET", "a")
    await until(lambda: all_sentinels(seeker) == 3)
    old.otherwise = SILENCE
    calls = [seeker.call("SET", "a", str(n)) for n in range(5)]
    await until(lambda: len(old.commands) == 6)
    sentinels[1].knows(new, epoch=2)
    sentinels[1].announce(old, new)
    await asyncio.gather(*(call.future for call in calls))
    assert [command[2] for command in new.commands] == [b"0", b"1", b"2", b"3", b"4"]
    assert seeker.finder.master == address_of(new)
    assert len(seeker.lefts) == 2  # the message, and the other address
    assert str(sentinels[1]._port) in seeker.lefts[0]


async def test_a_message_while_the_old_master_is_connected_to(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is there in the same moment as the message: the Sentinels are asked again."""
    old, new = await scene.server(), await scene.server()
    sentinels = await scene.sentinels(old)
    opened: list[str] = []
    connect = Connector.open

    async def open_late(self: Connector, limit: float) -> AbstractConnection:
        connection = await connect(self, limit)
        if self.where == "{}:{}".format(*address_of(old)):
            opened.append(self.where)
            for each in sentinels:
                each.knows(new, epoch=2)
            assert isinstance(seeker.finder, SentinelFinder)
            seeker.finder._switched(address_of(new), "the first")
        return connection

    seeker = await scene.seek(*sentinels)
    monkeypatch.setattr(Connector, "open", open_late)
    await seeker.ask("GET", "a")
    assert opened
    assert old.commands == []
    assert new.commands == [(b"GET", b"a")]


async def test_the_sentinel_that_announced_a_master_is_waited_for(scene: Scene) -> None:
    """Most name the old master still, and answer first."""
    old, new = await scene.server(), await scene.server()
    sentinels = await scene.sentinels(old)
    seeker = await scene.seek(*sentinels)
    await seeker.ask("GET", "a")
    await until(lambda: all_sentinels(seeker) == 3)
    leader, *others = sentinels
    asked = [each.questions for each in others]
    leader.answers = False
    leader.knows(new, epoch=2)
    leader.announce(old, new)
    await until(lambda: seeker.lefts)
    call = seeker.call("SET", "a", "1")
    await until(lambda: all(each.questions > n for each, n in zip(others, asked, strict=True)))
    await until(lambda: all_sentinels(seeker) == 2)
    for _ in range(3):
        # As long as it would take to get there.
        there = await connector().at(*address_of(old)).open(10)
        await there.disconnect()
    assert not call.future.done()
    leader.answer_all()
    await call.future
    assert (b"SET", b"a", b"1") in new.commands
    assert (b"SET", b"a", b"1") not in old.commands


async def test_a_promoted_server_that_is_no_master_yet_is_asked_again(scene: Scene) -> None:
    new = await scene.server("slave")
    (sentinel,) = await scene.sentinels(new, 1)
    seeker = await scene.seek(sentinel)
    call = seeker.call("SET", "a", "1")
    await until(lambda: sentinel.questions > 2)
    assert not new.commands
    new.role = "master"
    await call.future
    assert new.commands == [(b"SET", b"a", b"1")]


async def test_a_frozen_master_does_not_delay_the_change_to_another(scene: Scene) -> None:
    old, new = await scene.server(), await scene.server()
    old.greeting = SILENCE
    sentinels = await scene.sentinels(old)
    seeker = await scene.seek(*sentinels)
    call = seeker.call("SET", "a", "1")
    await until(lambda: old.open == 1)
    for each in sentinels:
        each.knows(new, epoch=2)
    # Nobody announces it: they are asked now and then.
    async with asyncio.timeout(30):
        await call.future
    assert seeker.finder.master == address_of(new)
    await until(lambda: old.open == 0)


async def test_a_lost_sentinel_is_listened_to_again(scene: Scene) -> None:
    master, other = await scene.server(), await scene.server()
    (sentinel,) = await scene.sentinels(master, 1)
    seeker = await scene.seek(sentinel)
    await seeker.ask("GET", "a")
    await until(lambda: all_sentinels(seeker) == 1)
    await sentinel.refuse()
    sentinel.cut()
    await until(lambda: all_sentinels(seeker) == 0)
    await sentinel.listen()
    await until(lambda: all_sentinels(seeker) == 1)
    assert sentinel.count(b"SUBSCRIBE") == 2
    sentinel.knows(other, epoch=2)
    sentinel.announce(master, other)
    await until(lambda: seeker.lefts)
    await seeker.ask("GET", "b")
    assert count(master, other) == [1, 1]


async def test_a_sentinel_that_refuses_us_is_not_asked_without_pause(scene: Scene) -> None:
    master = await scene.server()
    first, second, third = await scene.sentinels(master)
    third.welcome.extend([b"-WRONGPASS no\r\n"] * 1000)
    seeker = await scene.seek(first, second)
    await seeker.ask("GET", "a")
    await until(lambda: len(third.links) >= 4)
    # Without a pause there were 50 more.
    await asyncio.sleep(0.1)
    assert len(third.links) < 20


async def test_a_sentinel_that_moved_is_not_asked_for_ever(scene: Scene) -> None:
    master = await scene.server()
    first, second, gone = await scene.sentinels(master)
    seeker = await scene.seek(first, second)
    await seeker.ask("GET", "a")
    await until(lambda: all_sentinels(seeker) == 3)
    await gone.refuse()
    gone.cut()
    for each in (first, second):
        each.others.remove(address_of(gone))
    master.plan.append(CUT)
    await seeker.ask("GET", "a")
    await until(lambda: len(seeker.sentinels) == 2)


async def test_a_name_and_its_address_are_one_sentinel(scene: Scene) -> None:
    master = await scene.server()
    first, second = await scene.sentinels(master, 2)
    host, port = address_of(first)
    assert host != "localhost"
    seeker = await scene.seek(first, seed_host="localhost")
    await seeker.ask("GET", "a")
    await until(lambda: all_sentinels(seeker) == 2)
    assert {each.where for each in seeker.sentinels} == {
        f"localhost:{port}",
        "{}:{}".format(*address_of(second)),
    }
    assert first.open == 1
