"""Random values as a server may send them: every type of RESP3, and what is no RESP at all."""

from __future__ import annotations

from random import Random
from typing import Any

import hiredis

from redisson_py._redis.limits import MOST_UNENDED_BYTES
from tests.support.fake_peer import bulk, error, push

#: Words that our code looks for in replies, errors and pushes.
WORDS = (
    b"", b"0", b"1", b"-1", b"OK", b"PONG", b"QUEUED", b"role", b"master", b"slave", b"version",
    b"7.2.4", b"message", b"smessage", b"subscribe", b"sunsubscribe", b"unsubscribe", b"ip",
    b"port", b"flags", b"config-epoch", b"127.0.0.1", b"6379", b"65536", b"9" * 5000, b"\xff\xfe",
    b"\r\n", b"\r\n*9999999\r\n", b"k", b"redisson_lock__channel:{k}", b"+switch-master",
    b"service 127.0.0.1 1 127.0.0.1 2", b"nan", b"inf", b"1e400", b"x" * 70_000,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, -2, -3, -4, 7, -5, 255, 2**31, 2**53, 2**63 - 1, -(2**63))
ERRORS = (
    "ERR x", "NOSCRIPT No matching script", "MOVED 1 127.0.0.1:1", f"MOVED {'9' * 5000} :1",
    "MOVED 99999 a:1", "ASK 1 :99999", "ASK 1 [::1]:1", "LOADING x", "BUSY x", "READONLY x",
    "WRONGTYPE x", "NOAUTH x", "NOPERM User x has no permissions", "OOM x", "", "ERR \udcff",
    "CLUSTERDOWN x", "TRYAGAIN x", "MASTERDOWN x", "UNBLOCKED x", "EXECABORT x",
)  # fmt: skip
#: Bytes after which nothing can be read, or which would take much memory.
BROKEN = (
    b"*2147483647\r\n", b"*4294967295\r\n", b">2147483647\r\n", b"%2147483647\r\n",
    b"~9999999\r\n", b"*00000000000000000001\r\n", b"$9223372036854775807\r\n", b"$-2\r\n",
    b"*-7\r\n", b"%-1\r\n", b"~-1\r\n",
    b"*1\r\n" * 50, b"%1\r\n*0\r\n:1\r\n", b"!5\r\nERR x\r\n", b"#x\r\n",
    b":9999999999999999999999\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 50, b"\r\n\r\n",
    b",x\r\n", b"(x\r\n", b"*?\r\n", b"$?\r\n", b"\x16\x03\x01\x00\x05hello", b">0\r\n",
    b">-1\r\n:1\r\n", b"|1\r\n+a\r\n:1\r\n",
)  # fmt: skip


def scalar(random: Random) -> bytes:
    """Return a value that is neither nil nor an aggregate."""
    match random.randrange(8):
        case 0 | 1:
            return b":%d\r\n" % random.choice(NUMBERS)
        case 2 | 3:
            return bulk(random.choice(WORDS))
        case 4:
            return b"+" + random.choice(WORDS).replace(b"\r\n", b"")[:MOST_UNENDED_BYTES] + b"\r\n"
        case 5:
            return random.choice((b"#t\r\n", b"#f\r\n", b",nan\r\n", b",inf\r\n", b",1.5\r\n"))
        case 6:
            return random.choice((b"(123456789012345678901234567890\r\n", b"=5\r\ntxt:a\r\n"))
        case _:
            return bulk(random.randbytes(random.randrange(40)))


def value(random: Random, depth: int = 0) -> bytes:
    """Return any value except nil at the top, which is a grant."""
    kind = random.randrange(10)
    if depth and kind == 0:
        return random.choice((b"_\r\n", b"$-1\r\n", b"*-1\r\n"))
    if depth and kind == 1:
        return error("ERR inside")
    if depth > 3 or kind < 6:
        return scalar(random)
    length = random.randrange(6)
    if kind == 9:
        pairs = (scalar(random) + value(random, depth + 1) for _ in range(length))
        return b"%%%d\r\n" % length + b"".join(pairs)
    mark = b"~" if kind == 8 else b"*"
    return mark + b"%d\r\n" % length + b"".join(value(random, depth + 1) for _ in range(length))


def pushed(random: Random) -> bytes:
    """Return a push that nobody asked for, also one that looks like a confirmation."""
    if random.random() < 0.5:
        return push(*(random.choice(WORDS) for _ in range(random.randrange(1, 5))))
    length = random.randrange(5)
    return b">%d\r\n" % length + b"".join(value(random, 1) for _ in range(length))


def refusal(random: Random) -> bytes:
    """Return an error reply."""
    return b"-" + random.choice(ERRORS).encode("utf-8", "surrogateescape") + b"\r\n"


def parsed(data: bytes) -> Any:
    """Return what hiredis makes of one value."""
    reader = hiredis.Reader()
    reader.feed(data)
    return reader.gets()
