"""A node that was out of reach may have been replaced: what it says counts if another confirms it.

A master that was frozen for longer than its failover took grants when it wakes, and only then
learns that it is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from redisson_py._loop import running_loop
from redisson_py._redis.stream.call import Call
from redisson_py._redis.stream.stream import Stream
from redisson_py.errors import ClientClosedError, ConnectionLostError
from tests.stream.conftest import TalkFactory
from tests.support.fake_peer import SILENCE, FakePeer, bulk
from tests.support.stream_talk import Around, Talk
from tests.support.waiting import until


class Others(Around):
    """The other nodes, who confirm when the test says so.

    Attributes:
        asked: How often they were asked.
        confirmed: Set: they answer.
        read_on: What is to be called when they have answered about a late reply.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.asked = 0
        self.confirmed = asyncio.Event()
        self.read_on: Callable[[], None] | None = None

    async def confirm(self, stream: Stream) -> None:
        """Wait for the test."""
        self.asked += 1
        await self.confirmed.wait()

    def confirm_late(self, stream: Stream, then: Callable[[], None]) -> None:
        """Wait for the test."""
        self.read_on = then


async def use(talk: Talk, others: Others) -> None:
    """Have it connected and used; a slow machine may need more than one attempt."""
    others.confirmed.set()
    await talk.ask("GET", "first")
    others.confirmed.clear()
    others.asked = 0


async def nothing_before_confirmed(others: Others, peer: FakePeer, call: Call) -> None:
    """Fail if a call is sent on the newest connection before the others have answered."""
    await until(lambda: others.asked or peer.links[-1].commands)
    assert peer.links[-1].commands == []
    assert not call.future.done()
    others.confirmed.set()
    assert await call.future == b"GET k"


async def test_a_connection_after_one_that_broke(talks: TalkFactory, peer: FakePeer) -> None:
    others = Others()
    talk = await talks(topology=others)
    await talk.ask("GET", "first")
    assert others.asked == 0
    peer.cut()
    await until(lambda: talk.downs)
    call = talk.call("GET", "k")
    await until(lambda: len(peer.links) == 2)
    await nothing_before_confirmed(others, peer, call)


async def test_a_connection_that_took_long(
    talks: TalkFactory, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisson_py._redis.stream.stream.SLOW_OPENING_SECONDS", -1.0)
    others = Others()
    talk = await talks(topology=others)
    call = talk.call("GET", "k")
    await until(lambda: peer.links)
    await nothing_before_confirmed(others, peer, call)


async def test_what_comes_after_a_silence(talks: TalkFactory, peer: FakePeer) -> None:
    others = Others()
    talk = await talks(topology=others)
    await talk.ask("PING")
    peer.plan.append(SILENCE)
    call = talk.call("GET", "k")
    await peer.until(lambda: peer.count(b"GET") == 1)
    talk.stream.mistrust()
    peer.say(bulk(b"late"))
    await until(lambda: others.read_on or call.future.done())
    assert not call.future.done()
    assert others.read_on is not None
    others.read_on()
    assert await call.future == b"late"


async def test_a_node_that_serves_nothing_any_more(talks: TalkFactory, peer: FakePeer) -> None:
    """Its calls go elsewhere, in order, and its answers are not read."""
    talk = await talks(topology=Others())
    await talk.ask("PING")
    peer.plan.extend([SILENCE, SILENCE])
    calls = [talk.call("GET", str(number)) for number in range(2)]
    await peer.until(lambda: peer.count(b"GET") == 2)
    assert talk.stream.retire("it serves nothing") == calls
    peer.say(bulk(b"late") * 2)
    await peer.until(lambda: not peer.open)
    assert [call.uncertain for call in calls] == [True, True]
    assert not any(call.future.done() for call in calls)


async def test_what_goes_on_elsewhere_and_what_ends_here(
    talks: TalkFactory, peer: FakePeer
) -> None:
    """A call goes on; what is about the connection does not, for it would be of no use there."""
    others = Others()
    talk = await talks(topology=others)
    await use(talk, others)
    peer.cut()
    await until(lambda: not talk.stream.ready)
    call, alive = talk.call("GET", "k"), talk.stream.ping()
    assert talk.stream.take(lambda key: True) == [call]
    assert not alive.future.done()
    assert talk.stream.retire("replaced") == []
    with pytest.raises(ConnectionLostError, match="replaced"):
        await alive.future
    call.future.cancel()


async def test_one_that_was_not_in_use_is_not_connected_to_in_the_end(
    talks: TalkFactory, peer: FakePeer
) -> None:
    talk = await talks(topology=Others())
    await until(lambda: talk.stream._wanted is not None)
    assert talk.stream.retire("replaced") == []
    assert talk._running is not None
    await asyncio.wait([talk._running])
    assert not peer.links


async def test_one_that_is_confirmed_when_the_client_is_closed_already(
    talks: TalkFactory, peer: FakePeer
) -> None:
    others = Others()
    talk = await talks(topology=others)
    await use(talk, others)
    downs, connected = talk.downs, talk.connected
    peer.cut()
    await until(lambda: talk.downs > downs)
    call = talk.call("GET", "k")
    await until(lambda: others.asked)
    others.confirmed.set()
    talk.stream.close_soon(ClientClosedError("closed"))
    assert talk._running is not None
    await asyncio.wait([talk._running])
    assert talk.connected == connected
    assert isinstance(call.future.exception(), ClientClosedError)


async def test_a_call_that_another_stream_delays_keeps_its_deadline(talks: TalkFactory) -> None:
    talk = await talks(topology=Others())
    call = Call(("GET", "k"), running_loop().time() + 0.05)
    # So its pause is 0.2 s or more.
    call.errors = 9
    talk.stream.delay(call, "CLUSTERDOWN The cluster is down")
    with pytest.raises(ConnectionLostError, match="not ready in time: CLUSTERDOWN") as raised:
        await asyncio.wait_for(call.future, 10)
    assert not raised.value.maybe_held
