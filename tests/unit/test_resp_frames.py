"""The framer cuts exactly at the ends of frames, whatever the types and the chunks."""

from __future__ import annotations

import pytest

from redisson_py.testing import FrameError, RespFramer

REPLIES = {
    "simple string": (b"+OK\r\n", "+"),
    "error": (b"-ERR no\r\n", "-"),
    "integer": (b":-12\r\n", ":"),
    "bulk string": (b"$5\r\na\r\nbc\r\n", "$"),
    "empty bulk string": (b"$0\r\n\r\n", "$"),
    "null bulk string": (b"$-1\r\n", "$"),
    "array": (b"*2\r\n:1\r\n$1\r\nx\r\n", "*"),
    "empty array": (b"*0\r\n", "*"),
    "null array": (b"*-1\r\n", "*"),
    "nested arrays": (b"*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n*1\r\n+x\r\n", "*"),
    "null": (b"_\r\n", "_"),
    "boolean": (b"#t\r\n", "#"),
    "double": (b",1.5e3\r\n", ","),
    "big number": (b"(3492890328409238509324850943850943825024385\r\n", "("),
    "bulk error": (b"!5\r\nERR x\r\n", "!"),
    "verbatim string": (b"=7\r\ntxt:abc\r\n", "="),
    "map": (b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "%"),
    "set": (b"~2\r\n:1\r\n:2\r\n", "~"),
    "push": (b">2\r\n+invalidate\r\n*1\r\n+key\r\n", ">"),
    "attribute": (b"|1\r\n+popularity\r\n%1\r\n+a\r\n,0.1\r\n*1\r\n:2039123\r\n", "*"),
    "empty attribute": (b"|0\r\n+OK\r\n", "+"),
    "attribute of an attribute": (b"|1\r\n+a\r\n+b\r\n|1\r\n+c\r\n+d\r\n$1\r\nx\r\n", "$"),
    "attribute inside": (b"*2\r\n:1\r\n|1\r\n+age\r\n:3600\r\n:2\r\n", "*"),
}
EVERY_REPLY = b"".join(data for data, _ in REPLIES.values())


@pytest.mark.parametrize(("data", "kind"), REPLIES.values(), ids=REPLIES)
def test_every_type_is_one_frame_of_its_kind_from_its_last_byte_on(data: bytes, kind: str) -> None:
    framer = RespFramer()
    assert framer.feed(data[:-1]) == []
    assert framer.pending == data[:-1]
    (frame,) = framer.feed(data[-1:])
    assert (frame.data, frame.kind) == (data, kind)
    assert framer.pending == b""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_do_not_depend_on_the_chunks(size: int) -> None:
    framer = RespFramer()
    frames = [
        frame
        for start in range(0, len(EVERY_REPLY), size)
        for frame in framer.feed(EVERY_REPLY[start : start + size])
    ]
    assert [(frame.data, frame.kind) for frame in frames] == list(REPLIES.values())


def test_commands_are_arrays_or_inline() -> None:
    stream = b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nSET k v\n\r\n*0\r\n"
    frames = RespFramer(commands=True).feed(stream)
    assert [frame.kind for frame in frames] == ["inline", "*", "inline", "inline", "*"]
    assert [frame.word for frame in frames] == [b"ping", b"get", b"set", b"", b""]
    assert [frame.items for frame in frames] == [1, 2, 3, 0, 0]
    assert b"".join(frame.data for frame in frames) == stream


@pytest.mark.parametrize(
    ("word", "confirms", "message"),
    [("ssubscribe", True, False), ("punsubscribe", True, False), ("pmessage", False, True)],
)
def test_pubsub_frames_are_distinguished(word: str, confirms: bool, message: bool) -> None:
    data = f">3\r\n${len(word)}\r\n{word}\r\n$1\r\nc\r\n:1\r\n".encode()
    (frame,) = RespFramer().feed(data)
    assert (frame.confirms_subscription, frame.is_message) == (confirms, message)


@pytest.mark.parametrize("data", [b"?\r\n", b"$?\r\n", b"*?\r\n", b"$-2\r\n", b"*x\r\n", b"$\r\n"])
def test_what_is_not_resp_is_an_error(data: bytes) -> None:
    with pytest.raises(FrameError):
        RespFramer().feed(data)


def test_what_is_not_a_command_is_an_error() -> None:
    tls_hello = b"\x16\x03\x01\x02\x00\n"
    framer = RespFramer(commands=True)
    with pytest.raises(FrameError):
        framer.feed(tls_hello)
    assert framer.pending == tls_hello


@pytest.mark.parametrize("commands", [True, False])
def test_a_row_without_end_is_an_error(commands: bool) -> None:
    framer = RespFramer(commands=commands)
    with pytest.raises(FrameError):
        framer.feed((b"a" if commands else b"+") * 70_000)
