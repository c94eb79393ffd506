"""The order of commands, replies and pushes on one connection that works."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.stream.call import ReplyError
from redisson_py.errors import ClientClosedError
from tests.stream.conftest import TalkFactory, fill, later
from tests.support.fake_peer import (
    SILENCE,
    Command,
    FakePeer,
    ScriptCache,
    bulk,
    confirmation,
    error,
    hello,
    message,
)
from tests.support.stream_talk import SCRIPT, Talk


class TestOrder:
    async def test_calls_of_one_loop_iteration_leave_in_one_write(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        writes = talk.stream.traffic.writes
        calls = [talk.call("GET", str(n)) for n in range(5)]
        await asyncio.gather(*[call.future for call in calls])
        assert peer.links[0].writes == [[(b"GET", b"%d" % n) for n in range(5)]]
        assert talk.stream.traffic.writes == writes + 1

    async def test_replies_go_to_their_callers_in_order(self, talk: Talk) -> None:
        calls = [talk.call("GET", str(n)) for n in range(1000)]
        replies = await asyncio.gather(*[call.future for call in calls])
        assert replies == [b"GET %d" % n for n in range(1000)]

    async def test_a_cancelled_call_keeps_its_position_and_its_reply_is_dropped(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        before, cancelled = talk.call("GET", "1"), talk.call("GET", "2")
        cancelled.future.cancel()
        after = talk.call("GET", "3")
        assert await before.future == b"GET 1"
        assert await after.future == b"GET 3"
        assert peer.commands == [(b"GET", b"1"), (b"GET", b"2"), (b"GET", b"3")]
        assert not talk.stream.waiting

    async def test_a_call_cancelled_before_the_connection_is_open_is_not_sent(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks()
        cancelled, kept = talk.call("GET", "1"), talk.call("GET", "2", must=True)
        cancelled.future.cancel()
        kept.future.cancel()
        await talk.ask("GET", "3")
        assert peer.commands == [(b"GET", b"2"), (b"GET", b"3")]


class TestPushes:
    async def test_messages_go_to_the_table_and_do_not_disturb_the_order(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        talk.stream.subscribe(b"ch")
        peer.plan.append(lambda c: message(b"ch", b"early") + confirmation(c))
        peer.plan.append(lambda c: message(b"ch", b"0") + bulk(b"one") + message(b"ch", b"1"))
        calls = [talk.call("GET", "1"), talk.call("GET", "2")]
        assert [await call.future for call in calls] == [b"one", b"GET 2"]
        assert talk.messages == [(b"ch", b"early"), (b"ch", b"0"), (b"ch", b"1")]

    async def test_a_confirmation_nobody_asked_for_shifts_nothing(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.append(lambda c: confirmation((b"unsubscribe", b"x")) + bulk(b"one"))
        peer.plan.append(lambda c: confirmation((b"unsubscribe", b"x")) + confirmation(c))
        first = talk.call("GET", "1")
        talk.stream.subscribe(b"a")
        second = talk.call("GET", "2")
        assert [await first.future, await second.future] == [b"one", b"GET 2"]

    async def test_a_refused_subscription_shifts_nothing(
        self, talk: Talk, peer: FakePeer, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer.plan.append(error("NOPERM No permissions to access a channel"))
        talk.stream.subscribe(b"ch")
        calls = [talk.call("GET", "1"), talk.call("GET", "2")]
        assert [await call.future for call in calls] == [b"GET 1", b"GET 2"]
        assert "cannot listen to b'ch': NOPERM" in caplog.text

    async def test_nothing_is_subscribed_while_there_is_no_connection(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks()
        talk.stream.subscribe(b"ch")  # whoever is told of the connection subscribes then
        await talk.ask("GET", "k")
        assert peer.commands == [(b"GET", b"k")]
        assert talk.connected == 1


def run(n: int) -> Command:
    return (b"EVALSHA", SCRIPT.sha.encode(), b"1", b"key", b"%d" % n)


LOAD: Command = (b"SCRIPT", b"LOAD", SCRIPT.text.encode())


class TestScripts:
    async def test_a_script_is_loaded_in_one_write_with_its_first_use_and_only_then(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.otherwise = ScriptCache()
        calls = [talk.script(str(n)) for n in range(3)]
        replies = await asyncio.gather(*[call.future for call in calls])
        assert replies == [b" ".join(run(n)) for n in range(3)]
        await talk.script("3").future
        assert peer.links[0].writes == [[LOAD, run(0), run(1), run(2)], [run(3)]]

    async def test_a_missing_script_is_loaded_once_for_many_calls_in_order(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        cache = peer.otherwise = ScriptCache()
        await talk.script("0").future
        for _ in range(3):
            cache.flush()
            peer.links[0].commands.clear()
            calls = [talk.script(str(n)) for n in range(20)]
            replies = await asyncio.gather(*[call.future for call in calls])
            runs = [run(n) for n in range(20)]
            assert replies == [b" ".join(command) for command in runs]
            assert peer.commands == [*runs, LOAD, *runs]
            assert not any(call.uncertain for call in calls)

    async def test_an_old_server_gets_the_script_without_its_first_row(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.greeting = hello("6.2.9")
        peer.otherwise = ScriptCache()
        talk = await talks()
        await talk.script("1").future
        plain = SCRIPT.wordings[Dialect.PLAIN]
        assert peer.commands == [
            (b"SCRIPT", b"LOAD", plain.text.encode()),
            (b"EVALSHA", plain.sha.encode(), b"1", b"key", b"1"),
        ]

    async def test_a_script_that_may_be_loaded_by_now_is_loaded(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        refused = [error("NOPERM no script|load for you"), error("NOSCRIPT gone")]
        peer.plan.extend(refused * 2)
        with pytest.raises(ReplyError, match="NOPERM"):
            await talk.script("1").future
        peer.otherwise = ScriptCache()
        assert await talk.script("2").future == b" ".join(run(2))
        assert len(peer.links) == 1, "on the same connection"

    @pytest.mark.parametrize("text", ["LOADING Redis is loading", "BUSY Redis is busy"])
    async def test_a_server_that_cannot_load_a_script_yet_is_asked_again(
        self, talk: Talk, peer: FakePeer, text: str
    ) -> None:
        peer.otherwise = ScriptCache()
        peer.plan.extend([error(text), error(text)])
        assert await talk.script("1").future == b" ".join(run(1))
        assert peer.count(b"SCRIPT") == 2


class TestClose:
    async def test_everything_under_way_fails_and_nothing_stays_open(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks()
        await talk.ask("PING")
        peer.plan.extend([error("LOADING Redis is loading"), SILENCE, SILENCE, SILENCE])
        delayed, silent, loading = talk.call("GET", "1"), talk.call("GET", "2"), talk.script("3")
        await peer.until(lambda: len(peer.commands) == 5)
        await talk.close()
        for call in (delayed, silent, loading):
            with pytest.raises(ClientClosedError, match="closed by the test"):
                await call.future
        with pytest.raises(ClientClosedError):
            talk.call("GET", "k")
        await peer.until(lambda: not peer.open)

    async def test_what_was_sent_just_before_still_arrives(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        call = talk.call("DEL", "k", must=True)
        await talk.close()
        await peer.until(lambda: (b"DEL", b"k") in peer.commands)
        assert isinstance(call.future.exception(), ClientClosedError)

    async def test_calls_that_wait_for_room_end_when_the_stream_fails(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        await fill(talk, peer)
        room = asyncio.create_task(talk.stream.room(later()))
        await asyncio.sleep(0)
        talk.stream.fail(ClientClosedError("closed"))
        await room
        peer.links[0].go_on_reading()

    async def test_what_the_transport_still_had_to_write_is_written(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.otherwise = SILENCE  # a reply nobody reads would break the connection
        calls = await fill(talk, peer)
        closing = asyncio.create_task(talk.close())
        await asyncio.sleep(0)
        peer.links[0].go_on_reading()
        await closing
        await peer.until(lambda: not peer.open)
        assert len(peer.commands) == len(calls)
