"""Connections that break, fall silent or talk nonsense, and what becomes of the calls."""

from __future__ import annotations

import asyncio
import time

import pytest

from redisson_py.errors import ConnectionLostError
from tests.stream.conftest import TalkFactory
from tests.support.fake_peer import CUT, SILENCE, FakePeer, bulk, error, message
from tests.support.stream_talk import Talk

#: Silence after which a connection counts as dead, where a test waits for that.
SHORT = 0.1

GARBAGE = (b"garbage\r\n", b"\x15\x03\x01\x00\x02\x02\x50", b"HTTP/1.1 400 Bad Request\r\n\r\n")


class TestCuts:
    async def test_what_was_not_answered_is_sent_again_in_order_and_uncertain(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.extend([bulk(b"answered"), SILENCE, SILENCE])
        answered, second, third = (talk.call("GET", str(n)) for n in (1, 2, 3))
        assert await answered.future == b"answered"
        await peer.until(lambda: len(peer.commands) == 3)
        peer.cut()
        assert await second.future == b"GET 2"
        fourth = talk.call("GET", "4")
        assert [await third.future, await fourth.future] == [b"GET 3", b"GET 4"]
        assert peer.links[1].commands == [(b"GET", b"%d" % n) for n in (2, 3, 4)]
        uncertain = [call.uncertain for call in (answered, second, third, fourth)]
        assert uncertain == [False, True, True, False]
        assert (talk.connected, talk.downs) == (2, 1)

    async def test_what_comes_before_the_cut_is_noticed_queues_behind_too(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.append(SILENCE)
        first = talk.call("SET", "k", "1")
        await peer.until(lambda: len(peer.commands) == 1)
        talk.stream.abort("the test says so")
        # An undo in the same turn, as when a task is cancelled just then.
        undo = talk.call("DEL", "k")
        assert [await first.future, await undo.future] == [b"SET k 1", b"DEL k"]
        assert peer.links[1].commands == [(b"SET", b"k", b"1"), (b"DEL", b"k")]

    async def test_an_abandoned_call_is_not_sent_again_unless_it_must(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.extend([SILENCE] * 3)
        abandoned, must = talk.call("SET", "k", "v"), talk.call("DEL", "k", must=True)
        kept = talk.call("GET", "k")
        await peer.until(lambda: len(peer.commands) == 3)
        abandoned.future.cancel()
        must.future.cancel()
        peer.cut()
        assert await kept.future == b"GET k"
        assert peer.links[1].commands == [(b"DEL", b"k"), (b"GET", b"k")]

    async def test_a_reply_cut_in_two_is_no_reply(self, talk: Talk, peer: FakePeer) -> None:
        peer.plan.append(b"$5\r\nhal")
        call = talk.call("GET", "k")
        await peer.until(lambda: len(peer.commands) == 1)
        peer.links[0].close()  # after what was said has been sent
        assert await call.future == b"GET k"
        assert call.uncertain

    async def test_what_was_to_be_asked_again_later_outlives_the_connection(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.extend([error("LOADING Redis is loading"), CUT])
        delayed, cut = talk.call("GET", "1"), talk.call("GET", "2")
        assert {await delayed.future, await cut.future} == {b"GET 1", b"GET 2"}

    async def test_a_peer_that_always_breaks_is_not_stormed(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.otherwise = CUT
        talk = await talks()
        call = talk.call("GET", "k", seconds=0.5)
        with pytest.raises(ConnectionLostError) as raised:
            await call.future
        assert raised.value.maybe_held
        # With pauses that double from 4 ms on there is time for a dozen, without for hundreds.
        assert len(peer.links) < 40


class TestSilence:
    async def test_a_connection_that_does_not_answer_is_replaced_and_the_call_resent(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks(reply_timeout=SHORT)
        peer.plan.append(SILENCE)
        call = talk.call("GET", "k")
        assert await call.future == b"GET k"
        # But for one whose greeting took too long on a busy machine.
        used = [link.commands for link in peer.links if link.commands]
        assert used == [[(b"GET", b"k")]] * 2
        assert call.uncertain
        await peer.until(lambda: peer.open == 1)

    async def test_a_connection_that_still_talks_is_kept(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks(reply_timeout=SHORT)
        await talk.ask("PING")
        peer.plan.append(SILENCE)
        call = talk.call("GET", "k")
        end = asyncio.get_running_loop().time() + 3 * SHORT
        while asyncio.get_running_loop().time() < end:
            peer.say(message(b"ch", b"0"))
            await asyncio.sleep(SHORT / 20)
        peer.say(bulk(b"at last"))
        assert await call.future == b"at last"
        assert len(peer.links) == 1

    async def test_a_needed_connection_is_pinged_while_idle_and_others_are_not(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        needed, idle = await talks(SHORT, needed=True), await talks(SHORT)
        await needed.ask("GET", "needed")
        await idle.ask("GET", "idle")
        await peer.until(lambda: peer.count(b"PING") == 3)
        assert [len(link.commands) for link in peer.links] == [4, 1]
        needed.needed = False

    async def test_a_blocked_event_loop_is_not_the_servers_silence(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        talk = await talks(reply_timeout=SHORT)
        await talk.ask("PING")
        call = talk.call("GET", "k")
        await asyncio.sleep(0)
        time.sleep(3 * SHORT)  # noqa: ASYNC251  # the point of the test
        assert await call.future == b"GET k"
        assert len(peer.links) == 1


class TestNonsense:
    @pytest.mark.parametrize("garbage", GARBAGE, ids=["text", "tls", "http"])
    async def test_what_is_not_resp_breaks_the_connection_and_the_call_is_sent_again(
        self, talk: Talk, peer: FakePeer, garbage: bytes
    ) -> None:
        peer.plan.append(garbage)
        call = talk.call("GET", "k")
        assert await call.future == b"GET k"
        assert len(peer.links) == 2
        await peer.until(lambda: peer.open == 1)

    async def test_good_replies_before_the_nonsense_count(self, talk: Talk, peer: FakePeer) -> None:
        peer.plan.extend([bulk(b"one") + GARBAGE[0], SILENCE])
        first, second = talk.call("GET", "1"), talk.call("GET", "2")
        assert [await first.future, await second.future] == [b"one", b"GET 2"]
        assert peer.links[1].commands == [(b"GET", b"2")]
