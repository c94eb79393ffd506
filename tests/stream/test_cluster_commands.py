"""What a stream writes to a node of a cluster: sharded subscriptions and scripts, ASKING."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts.source import load, parse
from redisson_py._redis.stream.call import Call
from tests.stream.conftest import TalkFactory, later
from tests.support.fake_peer import OK, Command, FakePeer, ScriptCache, error, hello, push
from tests.support.stream_talk import Talk

SPEAK = parse("""\
#!lua
--! script   test.speak
--! version  1
--! keys     key:string
--! args     channel:str
--! returns  any = what the peer says
--! retry    safe: it changes nothing
return redis.call('PUBLISH', channel, '0')
""")
ASKING = (b"ASKING",)


def packed(channel: bytes, *, asking: bool = False) -> Call:
    """Return a call as the engine packs it."""
    call = Call(SPEAK.head + SPEAK.bind(key=b"k", channel=channel), later(), SPEAK)
    call.asking = asking
    return call


def loaded(dialect: Dialect) -> Command:
    return (b"SCRIPT", b"LOAD", SPEAK.wordings[dialect].text.encode())


def spoken(dialect: Dialect, channel: bytes) -> Command:
    return (b"EVALSHA", SPEAK.wordings[dialect].sha.encode(), b"1", b"k", channel)


class TestScripts:
    async def test_a_sharded_stream_sends_them_in_its_dialect(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.otherwise = ScriptCache()
        talk = await talks(sharded=True)
        unpacked = Call((1, b"k", b"d"), later(), SPEAK)
        for call in (packed(b"c"), unpacked):
            await talk.stream.send(call).future
        assert peer.commands == [
            loaded(Dialect.SHARDED),
            spoken(Dialect.SHARDED, b"c"),
            spoken(Dialect.SHARDED, b"d"),
        ]

    async def test_a_script_that_tells_nobody_is_sent_as_it_was_packed(self) -> None:
        script = load("lock.renew")
        call = Call(script.head + b"the rest", 0, script)
        assert call.pack(Dialect.SHARDED) is call.args


class TestSubscriptions:
    async def test_a_sharded_one_ends_with_a_greeting_behind_it(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks(sharded=True)
        await talk.ask("PING")
        greeted: list[int] = []

        def greeting(command: Command) -> bytes:
            greeted.append(len(peer.commands))
            return hello()

        peer.greeting = greeting
        talk.stream.subscribe(b"c")
        talk.stream.unsubscribe(b"c")
        await talk.ask("PING")
        assert peer.commands == [
            (b"PING",),
            (b"SSUBSCRIBE", b"c"),
            (b"SUNSUBSCRIBE", b"c"),
            (b"PING",),
        ]
        assert greeted == [3], "right behind SUNSUBSCRIBE"
        assert talk.gone == []

    async def test_the_end_of_one_that_is_refused_takes_nobodys_answer(
        self, talks: TalkFactory, peer: FakePeer, caplog: pytest.LogCaptureFixture
    ) -> None:
        talk = await talks(sharded=True)
        talk.stream.subscribe(b"c")
        await talk.ask("PING")
        gone = push(b"sunsubscribe", b"c", 0)
        peer.plan.append(lambda command: gone + error("MOVED 1 127.0.0.1:1"))
        talk.stream.unsubscribe(b"c")
        assert await talk.ask("ECHO", "x") == b"ECHO x"
        assert not talk.stream.waiting
        assert not caplog.records
        peer.plan.append(error("NOPERM no sunsubscribe"))
        talk.stream.unsubscribe(b"c")
        assert await talk.ask("ECHO", "y") == b"ECHO y"
        assert "NOPERM no sunsubscribe" in caplog.text


class TestAsking:
    async def test_it_stands_right_before_its_call_and_behind_what_loads_the_script(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        cache = ScriptCache()
        peer.otherwise = lambda command: OK if command == ASKING else cache(command)
        calls = [packed(b"c", asking=True), packed(b"d"), packed(b"e", asking=True)]
        for call in calls:
            talk.stream.send(call)
        answers = [await call.future for call in calls]
        said = [spoken(Dialect.MODERN, channel) for channel in (b"c", b"d", b"e")]
        assert answers == [b" ".join(command) for command in said]
        load_it = loaded(Dialect.MODERN)
        assert peer.commands == [load_it, ASKING, said[0], said[1], ASKING, said[2]]
        assert not talk.stream.waiting

    async def test_a_call_that_goes_again_asks_again(self, talk: Talk, peer: FakePeer) -> None:
        cache = ScriptCache()
        peer.otherwise = lambda command: OK if command == ASKING else cache(command)
        await talk.stream.send(packed(b"c")).future
        cache.flush()
        peer.links[0].commands.clear()
        await talk.stream.send(packed(b"d", asking=True)).future
        said = spoken(Dialect.MODERN, b"d")
        assert peer.commands == [ASKING, said, loaded(Dialect.MODERN), ASKING, said]


async def test_what_is_gathered_leaves_in_one_write(talk: Talk, peer: FakePeer) -> None:
    async def writes_of(count: int, *, gathered: bool) -> int:
        before = talk.stream.traffic.writes
        if gathered:
            talk.stream.gather()
        await asyncio.gather(*[talk.call("ECHO", n).future for n in range(count)])
        return talk.stream.traffic.writes - before

    assert await writes_of(1000, gathered=False) > 1, "else this shows nothing"
    assert await writes_of(1000, gathered=True) == 1
    assert await writes_of(1000, gathered=False) > 1, "for one turn only"
