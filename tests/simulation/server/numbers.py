"""How a server reads numbers in arguments and values."""

from __future__ import annotations

import re

from tests.simulation.server.replies import NOT_INTEGER, ErrorReply

LEAST, GREATEST = -(2**63), 2**63 - 1

_INTEGER = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_FLOAT = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)\Z")
_INFINITE = re.compile(rb"[+-]?inf(?:inity)?\Z", re.IGNORECASE)


def integer(text: bytes, refusal: bytes = NOT_INTEGER) -> int:
    """Return a 64-bit integer, written in the one way that servers accept."""
    if _INTEGER.match(text) is not None:
        number = int(text)
        if LEAST <= number <= GREATEST:
            return number
    raise ErrorReply(refusal)


def real(text: bytes, refusal: bytes = b"ERR value is not a valid float") -> float:
    """Return a double."""
    if _FLOAT.match(text) is not None or _INFINITE.match(text) is not None:
        return float(text) + 0.0
    raise ErrorReply(refusal)


def bound(text: bytes) -> tuple[float, bool]:
    """Return an end of a range of scores, and whether that score itself is left out."""
    refusal = b"ERR min or max is not a float"
    return (real(text[1:], refusal), True) if text[:1] == b"(" else (real(text, refusal), False)


def added(number: int, change: int) -> int:
    """Return a sum."""
    if LEAST <= number + change <= GREATEST:
        return number + change
    raise ErrorReply(b"ERR increment or decrement would overflow")
