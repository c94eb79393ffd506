"""The scripts of `lua/once`: a fenced lock, and beside it a record of what is done."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._answers import GIVEN_UP, UNKNOWN_WAIT, Answer, Busy, Granted, Settled
from redisson_py._redis.commands.lock import FencedLockCommands
from redisson_py._redis.commands.needs import needs
from redisson_py._redis.commands.replies import seconds_left
from redisson_py._redis.commands.request import (
    RECEIPT_MS,
    AcquireValues,
    Command,
    Field,
    Receipted,
)
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole
from redisson_py._redis.scripts.source import Script

_CODE_AND_NUMBER = array(whole(-3, 1), whole(-1))
_DONE = array(whole(2, 2), whole(0), text, text)
ACQUIRE = source.load("once.acquire", lambda reply: _CODE_AND_NUMBER(reply) or _DONE(reply))
COMPLETE = source.load("once.complete", array(text, text))
FORGET = source.load("once.forget")
INSPECT = source.load("once.inspect", array(whole(-2), whole(-2), whole(0), whole(0), rows=(text,)))

_BYTES, _TEXT = b"b", b"s"


class OnceCommands(FencedLockCommands):
    """What is carried out once: whoever runs it holds a fenced lock, and a record says it is done.

    Args:
        key: The key of the lock, from `_keys.once`.
        keep_ms: How long the record is kept; and the counter of tokens, after the lease ends.
    """

    __slots__ = ()

    kind = hold_kind = "once"
    acquire_script = ACQUIRE
    # Who comes later must not wait for a name that is taken and done.
    leave_taken_script: Script | None = None
    tokens = 1

    @property
    def clients(self) -> None:
        """The queue of the clients that wait: none, for they all leave when it is done."""

    @property
    def record(self) -> bytes:
        """The key of the record that it is done."""
        return _keys.once_record(self.key)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key: the record and the counter of tokens too."""
        return (self.key, self.record, self._token_key)

    def acquire(self, request: AcquireValues) -> bytes:
        """Return the arguments of the script that asks to run it."""
        return ACQUIRE.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, request.field),
            token=self._token_key,
            record=self.record,
            owner=request.field,
            lease_ms=request.lease_ms,
            idle_ms=self.idle_ms,
            needs=needs(self, request),
        )

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means."""
        code, number = reply[:2]
        if code == 1:
            return Granted(number)
        if code == 2:
            kind, result = reply[2:]
            return Settled(number, _result(kind, result))
        if code == 0:
            return Busy(seconds_left(number)) if number >= 0 else UNKNOWN_WAIT
        return GIVEN_UP

    def complete(self, hold: Field, token: int, result: str | bytes) -> bytes:
        """Return the arguments of `COMPLETE`, which records a result if this hold is in force."""
        is_text = isinstance(result, str)
        return COMPLETE.bind(
            lock=self.key,
            record=self.record,
            receipt=_keys.suffixed(self.key, b"redisson_py:receipt:" + hold.field),
            owner=hold.field,
            token=token,
            kind=_TEXT if is_text else _BYTES,
            result=result.encode() if isinstance(result, str) else result,
            keep_ms=self.idle_ms,
            channel=self.channel,
            receipt_ms=RECEIPT_MS,
        )

    @staticmethod
    def recorded(reply: Any, result: str | bytes) -> str | bytes | None:
        """Return which result is recorded, from the reply to `COMPLETE` for `result`."""
        if isinstance(reply, list):
            return _result(*reply)
        return result if reply == 1 else None

    def forget(self) -> Receipted:
        """Return what deletes the record."""
        return FORGET, {"record": self.record}

    def inspect_both(self) -> Command:
        """Return what shows who runs it, and whether it is done."""
        return INSPECT, INSPECT.bind(lock=self.key, record=self.record)


def _result(kind: bytes, data: bytes) -> str | bytes:
    return data if kind == _BYTES else data.decode(errors="replace")
