"""Which answers are asked again and which are final, and what a caller is told in the end."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._redis.stream import refused_calls, stream
from redisson_py._redis.stream.call import Call, ReplyError
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError
from tests.stream.conftest import TalkFactory
from tests.support.fake_peer import CUT, SILENCE, Command, FakePeer, error, hello
from tests.support.stream_talk import Talk
from tests.support.waiting import until

NOT_YET = (
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "ERR Script attempted to access a non local key in a cluster node script: 1",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "MISCONF Errors writing to the AOF file: No space left on device",
)
FINAL = (
    "ERR unknown command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "NOPERM User app has no permissions to run the 'get' command",
    "NOAUTH Authentication required.",
)


class TestErrorReplies:
    @pytest.mark.parametrize("text", NOT_YET, ids=lambda text: text.split()[0])
    async def test_not_yet_is_asked_again_on_the_same_connection(
        self, talk: Talk, peer: FakePeer, text: str
    ) -> None:
        peer.plan.extend([error(text)] * 3)
        call = talk.call("GET", "k")
        assert await call.future == b"GET k"
        assert peer.commands == [(b"GET", b"k")] * 4
        assert len(peer.links) == 1
        assert not call.uncertain

    @pytest.mark.parametrize("text", NOT_YET, ids=lambda text: text.split()[0])
    async def test_not_yet_is_asked_until_the_deadline_and_was_not_executed(
        self, talk: Talk, peer: FakePeer, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def again_and_again(command: Command) -> bytes:
            return error(text)

        # The deadline falls into a pause, not between a question and its answer.
        for module in (stream, refused_calls):
            monkeypatch.setattr(
                module, "pause_before", lambda attempt, longest=0.0: 0.001 if attempt < 3 else 60
            )
        peer.otherwise = again_and_again
        asked = 0
        for _ in range(3):
            before = peer.count(b"GET")
            call = talk.call("GET", "k", seconds=0.2)
            with pytest.raises(ConnectionLostError) as raised:
                await call.future
            if (asked := peer.count(b"GET") - before) > 1:
                break
            # Else a busy machine took all of its time.
        # A script can have changed one key before it names another one.
        assert raised.value.maybe_held == ("non local key" in text)
        assert asked > 1

    async def test_read_only_is_asked_again_on_a_new_connection(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        peer.plan.append(error("READONLY You can't write against a read only replica."))
        call = talk.call("SET", "k", "v")
        assert await call.future == b"SET k v"
        assert [link.commands for link in peer.links] == [[(b"SET", b"k", b"v")]] * 2
        await peer.until(lambda: peer.open == 1)

    @pytest.mark.parametrize("text", FINAL, ids=lambda text: text.split()[0])
    async def test_everything_else_is_final(self, talk: Talk, peer: FakePeer, text: str) -> None:
        peer.plan.append(error(text))
        with pytest.raises(ReplyError) as raised:
            await talk.ask("GET", "k")
        # The user's name is a part of the URL.
        assert str(raised.value) == text.replace("User app has", "the user has")
        assert await talk.ask("GET", "k") == b"GET k"
        assert peer.count(b"GET") == 2

    @pytest.mark.parametrize("text", ["TRYAGAIN Multiple keys", "ASK 7 127.0.0.1:7001"])
    async def test_what_can_be_asked_key_by_key_fails_at_once_while_its_slot_moves(
        self, talk: Talk, peer: FakePeer, text: str
    ) -> None:
        await talk.ask("PING")
        peer.plan.append(error(text))
        call = talk.call("GET", "k")
        call.splits = True
        with pytest.raises(ReplyError, match=text):
            await call.future
        assert peer.count(b"GET") == 1


class TestDeadlines:
    async def test_nothing_sent_is_nothing_held(self, talks: TalkFactory, peer: FakePeer) -> None:
        await peer.refuse()
        talk = await talks()
        call = talk.call("GET", "k", seconds=0.1)
        with pytest.raises(ConnectionLostError, match="no connection to Redis at") as raised:
            await call.future
        assert not raised.value.maybe_held

    async def test_sent_and_cut_off_may_be_held(self, talk: Talk, peer: FakePeer) -> None:
        await peer.refuse()
        peer.plan.append(CUT)
        call = talk.call("SET", "k", "v", seconds=1)
        with pytest.raises(ConnectionLostError, match="may have been executed") as raised:
            await call.future
        assert raised.value.maybe_held
        assert peer.commands == [(b"SET", b"k", b"v")]

    async def test_a_late_reply_goes_to_nobody(self, talk: Talk, peer: FakePeer) -> None:
        peer.plan.append(SILENCE)
        late = talk.call("GET", "1", seconds=0.05)
        with pytest.raises(ConnectionLostError, match="no answer"):
            await late.future
        after = talk.call("GET", "2")
        await peer.until(lambda: len(peer.commands) == 2)
        # The reply to the second came as the reply to the first: only now the first's comes.
        peer.say(b"+late\r\n")
        assert await after.future == b"late"

    async def test_a_call_sent_while_another_is_given_up_has_its_own_deadline_too(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        class Follows(asyncio.Future[object]):
            """Goes on while it is failed, as the requests of composites do."""

            def set_exception(self, error: type | BaseException) -> None:
                super().set_exception(error)
                following.append(talk.call("GET", "3", seconds=0.01))

        peer.plan.extend([SILENCE] * 3)
        following: list[Call] = []
        long, short = talk.call("GET", "1", seconds=30), talk.call("GET", "2", seconds=0.05)
        short.future = Follows()
        with pytest.raises(ConnectionLostError, match="no answer"):
            await short.future
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionLostError, match="no answer"):
                await following[0].future
        assert not long.future.done()

    async def test_refused_for_now_and_then_out_of_reach_is_nothing_held(
        self, talk: Talk, peer: FakePeer
    ) -> None:
        def not_yet(command: Command) -> bytes:
            return error("CLUSTERDOWN The cluster is down")

        await peer.refuse()
        peer.otherwise = not_yet
        call = talk.call("SET", "k", "v", seconds=1)
        await until(lambda: call.refusals > 0 and not talk.stream.waiting)
        talk.stream.abort("the node died")
        with pytest.raises(ConnectionLostError, match=r"no connection.*CLUSTERDOWN") as raised:
            await call.future
        assert not raised.value.maybe_held


class TestRefusedConnections:
    async def test_an_old_server_is_an_error_at_once(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.greeting = hello("6.0.16")
        talk = await talks()
        for attempt in (1, 2):
            with pytest.raises(UnsupportedServerError, match=r":\d+: .*6\.0\.16 is too old: 6\.2"):
                await talk.ask("GET", "k")
            assert len(peer.links) == attempt
        assert peer.commands == []

    @pytest.mark.parametrize(
        "text", ["ERR unknown command 'HELLO', with args", "NOPROTO unsupported protocol version"]
    )
    async def test_a_server_without_resp3_is_an_error_at_once(
        self, talks: TalkFactory, peer: FakePeer, text: str
    ) -> None:
        peer.greeting = error(text)
        talk = await talks()
        with pytest.raises(UnsupportedServerError, match="RESP3"):
            await talk.ask("GET", "k")
        assert len(peer.links) == 1

    @pytest.mark.parametrize(
        "text",
        [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH HELLO must be called with the client already authenticated",
            "NOPERM User app has no permissions to run the 'hello' command",
        ],
        ids=lambda text: text.split()[0],
    )
    async def test_refused_credentials_are_an_error_at_once_and_no_loop(
        self, talks: TalkFactory, peer: FakePeer, text: str
    ) -> None:
        peer.greeting = error(text)
        talk = await talks()
        for attempt in (1, 2):
            calls = [talk.call("GET", str(n)) for n in range(3)]
            for call in calls:
                with pytest.raises(BackendError, match=text.split()[1]) as raised:
                    await call.future
                assert type(raised.value) is BackendError
            assert len(peer.links) == attempt
        assert talk.downs == 2

    async def test_a_database_that_does_not_exist_is_an_error_at_once(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.selected = error("ERR DB index is out of range")
        talk = await talks(path="/99")
        with pytest.raises(BackendError, match="DB index is out of range"):
            await talk.ask("GET", "k")
        assert len(peer.links) == 1

    async def test_the_second_greeting_too(self, talks: TalkFactory, peer: FakePeer) -> None:
        # redis-py says HELLO to agree on RESP3, the stream to learn the version.
        greetings = 0

        def not_the_second(command: Command) -> bytes:
            nonlocal greetings
            greetings += 1
            return SILENCE if greetings == 2 else hello()

        peer.greeting = not_the_second
        # Not so short that a busy machine takes the third for missing, too.
        talk = await talks(reply_timeout=1)
        assert await talk.ask("GET", "k") == b"GET k"
        assert greetings == 4

    async def test_a_connection_that_breaks_in_the_greeting_is_tried_again(
        self, talks: TalkFactory, peer: FakePeer
    ) -> None:
        peer.welcome.extend([CUT, CUT])
        talk = await talks()
        calls = [talk.call("GET", "1"), talk.call("GET", "2")]
        replies = await asyncio.gather(*[call.future for call in calls])
        assert replies == [b"GET 1", b"GET 2"]
        assert len(peer.links) == 3
