"""What cannot be compared with a real server: its clock, restarts, and the same run twice."""

from __future__ import annotations

import pytest

from tests.simulation.server import Server, Session, UnsupportedError


class Talk:
    """One session of a server whose clock is set by hand."""

    def __init__(self) -> None:
        self.now_us = 1_700_000_000_000_000
        self.server = Server(lambda: self.now_us)
        self.sent: list[bytes] = []
        self.closed = 0
        self.session = self.connect()

    def connect(self) -> Session:
        return self.server.session(self.sent.append, self.close)

    def close(self) -> None:
        self.closed += 1

    def ask(self, *words: bytes) -> bytes:
        self.sent.clear()
        self.session.execute(words)
        return b"".join(self.sent)


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_a_key_is_there_up_to_the_last_millisecond_of_its_life(talk: Talk) -> None:
    talk.now_us += 999
    talk.ask(b"SET", b"k", b"v", b"PX", b"5")
    talk.now_us += 5000
    assert talk.ask(b"PTTL", b"k") == b":0\r\n"
    assert talk.ask(b"GET", b"k") == b"$1\r\nv\r\n"
    talk.now_us += 1
    assert talk.server.keys() == []
    assert talk.ask(b"PTTL", b"k") == b":-2\r\n"


@pytest.mark.parametrize("keep_data", [False, True])
def test_restart(talk: Talk, keep_data: bool) -> None:
    sha = talk.ask(b"SCRIPT", b"LOAD", b"return 1")[5:45]
    talk.ask(b"HSET", b"k", b"f", b"v")
    talk.ask(b"SUBSCRIBE", b"c")
    assert talk.server.subscribers(b"c") == 1
    run_id = talk.server.run_id
    talk.server.restart(keep_data)
    assert talk.closed == 1
    assert talk.ask(b"PING") == b""
    assert talk.server.subscribed() == []
    assert talk.server.hash(b"k") == ({b"f": b"v"} if keep_data else {})
    assert talk.server.run_id != run_id
    talk.session = talk.connect()
    assert talk.ask(b"EVALSHA", sha, b"0") == b"-NOSCRIPT No matching script.\r\n"


def test_servers_share_no_keys_and_no_scripts(talk: Talk) -> None:
    sha = talk.ask(b"SCRIPT", b"LOAD", b"return redis.call('INCRBY', 'n', 1)")[5:45]
    assert talk.ask(b"EVALSHA", sha, b"0") == b":1\r\n"
    other = Talk()
    assert other.ask(b"EVALSHA", sha, b"0").startswith(b"-NOSCRIPT")
    assert other.ask(b"GET", b"n") == b"$-1\r\n"
    assert Server(lambda: 0, "one").run_id != Server(lambda: 0, "two").run_id


def test_an_ended_session_hears_nothing_more(talk: Talk) -> None:
    talk.ask(b"SSUBSCRIBE", b"c")
    talk.session.end()
    talk.session = talk.connect()
    assert talk.ask(b"SPUBLISH", b"c", b"m") == b":0\r\n"
    assert talk.closed == 0


@pytest.mark.parametrize(
    "command",
    [
        (b"GETEX", b"k"),
        (b"SET", b"k", b"v", b"NX"),
        (b"ZADD", b"k", b"LT", b"1", b"m"),
        (b"CLIENT", b"KILL", b"ID", b"1"),
        (b"EVAL", b"return redis.call('KEYS', '*')", b"0"),
        (b"EVAL", b"return redis.pcall('SUBSCRIBE', 'c')", b"0"),
        (b"EVAL", b"return redis.sha1hex('')", b"0"),
        (b"EVAL", b"return pcall(redis.call, 'GET', 'k')", b"0"),
    ],
)
def test_what_it_lacks_fails_the_test(talk: Talk, command: tuple[bytes, ...]) -> None:
    with pytest.raises(UnsupportedError):
        talk.ask(*command)
    assert talk.ask(b"PING") == b"+PONG\r\n"
