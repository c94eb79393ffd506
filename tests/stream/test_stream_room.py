"""Waiting for room: a peer that does not read, or has too much to answer."""

from __future__ import annotations

import asyncio
import random

import pytest

from redisson_py._redis.stream import stream
from redisson_py.errors import ConnectionLostError
from tests.stream.conftest import fill, later
from tests.support.fake_peer import SILENCE, FakePeer
from tests.support.stream_talk import Talk


async def test_a_peer_that_does_not_read_makes_the_stream_full(talk: Talk, peer: FakePeer) -> None:
    assert not talk.stream.full
    calls = await fill(talk, peer)
    room = asyncio.create_task(talk.stream.room(later()))
    await asyncio.sleep(0)
    assert not room.done()
    peer.links[0].go_on_reading()
    await room
    assert not talk.stream.full
    for call in calls:
        assert (await call.future).startswith(b"SET k xxx")


async def test_a_reply_lets_in_as_many_as_there_is_room_for(
    talk: Talk, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", 4)

    async def caller(number: int) -> object:
        await talk.stream.room(later())
        return await talk.call("GET", str(number)).future

    callers = [asyncio.create_task(caller(number)) for number in range(400)]
    await asyncio.gather(*callers)
    assert peer.count(b"GET") == 400
    assert talk.stream._room.wakes <= 400, "nobody was woken in vain"


async def test_no_room_in_time_is_no_answer(
    talk: Talk, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", 1)
    peer.plan.append(SILENCE)
    talk.call("GET", "1")
    with pytest.raises(ConnectionLostError, match="no answer from Redis") as raised:
        await talk.stream.room(asyncio.get_running_loop().time() + 0.05)
    assert not raised.value.maybe_held
    assert not talk.stream._room.waiting


async def test_waiting_calls_go_before_new_ones(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", 4)
    going = True

    async def ask(number: int) -> None:
        if talk.stream.full:
            await talk.stream.room(later())
        await talk.call("GET", str(number)).future

    async def ask_again_and_again(number: int) -> None:
        while going:
            await ask(number)

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(ask_again_and_again(number))
        async with asyncio.timeout(20):
            await asyncio.gather(*[ask(number) for number in range(100, 120)])
        going = False


async def test_callers_that_give_up_leave_the_room_as_it_was(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", 3)
    chance = random.Random(14)
    room, granted = talk.stream._room, 0

    async def caller(number: int) -> None:
        nonlocal granted
        await talk.stream.room(asyncio.get_running_loop().time() + chance.choice([0.002, 5]))
        granted += 1
        await talk.call("GET", str(number)).future

    for _ in range(20):
        callers = [asyncio.create_task(caller(number)) for number in range(50)]
        for each in chance.sample(callers, 25):
            await asyncio.sleep(0)
            each.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    assert not room.waiting
    assert not room._let_in
    assert not room.crowded
    assert granted <= 1000
    assert room.wakes <= 1000, "each was woken once at most"
