"""A peer that is away for long: nothing that nobody waits for stays, and no deadline is costly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from redisson_py._redis.stream.call import Call
from redisson_py.errors import ConnectionLostError
from tests.stream.conftest import TalkFactory
from tests.support.fake_peer import CUT, SILENCE, FakePeer, error
from tests.support.stream_talk import PATIENT, Talk


async def failures(calls: Iterable[Call]) -> list[Any]:
    return await asyncio.gather(*[call.future for call in calls], return_exceptions=True)


async def test_what_was_given_up_leaves_the_backlog(talks: TalkFactory, peer: FakePeer) -> None:
    await peer.refuse()
    talk = await talks()
    stays = talk.call("GET", "stays")
    for _ in range(5):
        errors = await failures(talk.call("GET", str(n), seconds=0.02) for n in range(400))
        assert {type(error) for error in errors} == {ConnectionLostError}
    assert list(talk.stream._backlog) == [stays]
    assert talk.stream.traffic.evicted == 2000
    await peer.listen()
    assert await stays.future == b"GET stays"
    assert peer.commands == [(b"GET", b"stays")], "what was given up is not sent at the return"


async def test_no_call_is_looked_at_at_every_deadline(talk: Talk, peer: FakePeer) -> None:
    looked_at = 0
    newest_first = talk.stream._deadlines._sent_since

    def counting() -> Iterator[Call]:
        nonlocal looked_at
        for call in newest_first():
            looked_at += 1
            yield call

    talk.stream._deadlines._sent_since = counting
    peer.otherwise = SILENCE
    calls = [talk.call("GET", str(n), seconds=0.05 + n / 10_000) for n in range(1000)]
    long = talk.call("GET", "long")
    await failures(calls)
    # Each once, and one at each of the deadlines to find that nothing is new.
    assert looked_at <= 2 * len(calls) + 2
    assert not long.future.done()
    assert len(talk.stream._deadlines) == 1


async def test_one_that_asks_once_fails_with_the_first_attempt_to_connect(
    talks: TalkFactory, peer: FakePeer
) -> None:
    await peer.refuse()
    talk = await talks()
    patient, once = talk.call("GET", "1"), talk.call("GET", "2")
    once.fails_fast = True
    async with asyncio.timeout(PATIENT / 2):
        with pytest.raises(ConnectionLostError, match="no connection to Redis at"):
            await once.future
    assert not patient.future.done()


async def test_one_that_asked_once_when_the_connection_broke_may_be_held(
    talk: Talk, peer: FakePeer
) -> None:
    await peer.refuse()
    peer.plan.append(CUT)
    once = talk.call("SET", "k", "v")
    once.fails_fast = True
    with pytest.raises(ConnectionLostError) as raised:
        await once.future
    assert raised.value.maybe_held


async def test_what_must_arrive_arrives_after_it_was_given_up(
    talks: TalkFactory, peer: FakePeer
) -> None:
    await peer.refuse()
    talk = await talks()
    present = asyncio.get_running_loop().time()
    call = Call(("DEL", "k"), present + 0.05, must=True, until=present + PATIENT)
    talk.stream.send(call)
    with pytest.raises(ConnectionLostError):
        await call.future
    await peer.listen()
    await peer.until(lambda: peer.commands == [(b"DEL", b"k")])
    await talk.ask("PING")
    assert call.is_settled
    assert not talk.stream._backlog


async def test_a_call_that_is_sent_again_hides_no_deadline(talk: Talk, peer: FakePeer) -> None:
    peer.otherwise = SILENCE
    peer.plan.append(error("NOREPLICAS Not enough good replicas to write."))
    again = talk.call("SET", "again", "1")
    await peer.until(lambda: bool(talk.stream._refused_calls) or len(peer.commands) > 1)
    short = talk.call("SET", "short", "1", seconds=0.3)
    await peer.until(lambda: peer.count(b"SET") == 3)
    async with asyncio.timeout(PATIENT / 2):
        with pytest.raises(ConnectionLostError):
            await short.future
    assert not again.future.done()
