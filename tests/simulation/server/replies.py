"""Replies as values, and their bytes in RESP2 and RESP3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

#: None, int, float, bytes, list, and the classes below.
Reply = Any

WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_INTEGER = b"ERR value is not an integer or out of range"
SYNTAX = b"ERR syntax error"


class UnsupportedError(Exception):
    """A test asked for what this server does not have: the server, or the test, needs a change."""


class ErrorReply(Exception):  # the name of a kind of reply
    """An error that a client is answered; `text` has neither the dash nor the line's end."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


class Status(bytes):
    """A simple string: `+OK`."""


class ErrorText(bytes):
    """An error inside an array, as scripts return it."""


class Verbatim(bytes):
    """A text: a verbatim string in RESP3."""


class Map(list[Reply]):
    """Keys and values in turn: a map in RESP3."""


class Scored(list[tuple[bytes, float]]):
    """Members with scores: pairs in RESP3, and one flat array in RESP2."""

    def flat(self) -> list[bytes]:
        """Return members and scores in turn."""
        return [item for member, score in self for item in (member, number_text(score))]


OK = Status(b"OK")


def wrong_arity(name: bytes) -> ErrorReply:
    """Return the error for too few or too many arguments."""
    return ErrorReply(b"ERR wrong number of arguments for '%b' command" % name.lower())


def number_text(number: float) -> bytes:
    """Return a double as Valkey writes it: whole ones as integers, else its `fpconv_dtoa`."""
    if math.isinf(number):
        return b"inf" if number > 0 else b"-inf"
    if math.isnan(number):
        return b"nan"
    if number == int(number) and abs(number) <= 2**62:
        return b"%d" % int(number)
    sign, (digits, exponent) = "-" if number < 0 else "", _shortest(abs(number))
    power = exponent + len(digits) - 1
    if exponent >= 0 and abs(power) < len(digits) + 7:
        text = digits + "0" * exponent
    elif exponent < 0 and (exponent > -7 or abs(power) < 4):
        whole = len(digits) + exponent
        text = f"{digits[:whole]}.{digits[whole:]}" if whole > 0 else "0." + "0" * -whole + digits
    else:
        digits = digits[: 18 - len(sign)]
        fraction = "." + digits[1:] if len(digits) > 1 else ""
        text = f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power)}"
    return (sign + text).encode()


def _shortest(number: float) -> tuple[str, int]:
    """Return the shortest digits that mean this number, and the exponent of their last one."""
    mantissa, _, power = f"{number!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    exponent = int(power or "0") - len(fraction)
    digits = (whole + fraction).lstrip("0")
    shorter = digits.rstrip("0")
    return shorter, exponent + len(digits) - len(shorter)


def encode(reply: Reply, resp3: bool) -> bytes:
    """Return the bytes of a reply."""
    kind = type(reply)
    if kind is int:
        return b":%d\r\n" % reply
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is None:
        return b"_\r\n" if resp3 else b"$-1\r\n"
    if kind is float:
        text = number_text(reply)
        return b",%b\r\n" % text if resp3 else b"$%d\r\n%b\r\n" % (len(text), text)
    if kind is list:
        return _array(b"*", len(reply), reply, resp3)
    return _encode_rare(reply, resp3)


def _encode_rare(reply: Reply, resp3: bool) -> bytes:
    if isinstance(reply, Status):
        return b"+%b\r\n" % reply
    if isinstance(reply, ErrorText):
        return b"-%b\r\n" % reply
    if isinstance(reply, Verbatim):
        text = bytes(reply)
        return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text) if resp3 else encode(text, resp3)
    if isinstance(reply, Map):
        if resp3:
            return _array(b"%", len(reply) // 2, reply, resp3)
        return _array(b"*", len(reply), reply, resp3)
    if isinstance(reply, Scored):
        return encode([[*pair] for pair in reply] if resp3 else reply.flat(), resp3)
    raise UnsupportedError(f"no bytes for {reply!r}")


def encode_push(items: Sequence[Reply], resp3: bool) -> bytes:
    """Return the bytes of a message, or of the answer to a subscription."""
    return _array(b">" if resp3 else b"*", len(items), items, resp3)


def _array(mark: bytes, length: int, items: Sequence[Reply], resp3: bool) -> bytes:
    return b"%b%d\r\n%b" % (mark, length, b"".join([encode(item, resp3) for item in items]))
