"""Changes to keys without an owner, with receipts, so that a repeated call changes nothing.

A bare counter does not show whether a call was served already. So a script leaves a receipt
under a key of its caller: the number of the call and its answer. A call with that number or a
lower one is not carried out again.

A caller makes one call at a time. Two calls in flight under one key could arrive in the other
order, when one is refused for a moment and sent again (BUSY, NOSCRIPT), and the first would then
count as served. So there are as many callers as there are calls at one time.
"""

from __future__ import annotations

import math
from typing import Any

from redisson_py import _keys
from redisson_py._loop import loop_time
from redisson_py._options import TOMBSTONE
from redisson_py._redis.commands.request import RECEIPT_MS, Receipted
from redisson_py._redis.context import RedisContext
from redisson_py._redis.stream.call import Call
from redisson_py._time import LONGEST_LEASE_SECONDS


def receipt_time(deadline: float | None) -> float:
    """Return the seconds for which Redis must remember a request that has this deadline.

    After an outage it can be repeated until then. If Redis had forgotten it, it would be carried
    out a second time.
    """
    if deadline is None:
        return TOMBSTONE
    left = max(0.0, deadline - loop_time())
    # Whole seconds: the conversion to milliseconds is cached.
    return math.ceil(min(left, LONGEST_LEASE_SECONDS)) + TOMBSTONE


def receipt_key(key: bytes, owner: str) -> bytes:
    """Return the key of one caller's receipts for calls on `key`."""
    return _keys.suffixed(key, b"redisson_py:receipt:" + owner.encode())


class _Caller:
    """Makes calls, one at a time.

    Attributes:
        key: The key of its receipts.
        calls: The number of calls it has made.
    """

    __slots__ = ("calls", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.calls = 0


Started = tuple[_Caller, Call]
"""A call under way."""


class Receipts:
    """The callers of one object."""

    def __init__(self, context: RedisContext, key: bytes) -> None:
        self._context = context
        self._key = key
        self._free: list[_Caller] = []
        self._prefix = context.owners.prefix

    def start(self, change: Receipted) -> Started:
        """Send a change; `answer` may follow.

        It is carried out whether or not the answer is awaited.
        """
        context, (script, values) = self._context, change
        context.check()
        if self._prefix is not context.owners.prefix:
            # Two children of a fork must not share a caller.
            self._prefix = context.owners.prefix
            self._free.clear()
        if self._free:
            caller = self._free.pop()
        else:
            caller = _Caller(receipt_key(self._key, context.owners.new_owner()))
        caller.calls += 1
        args = script.bind(receipt=caller.key, calls=caller.calls, receipt_ms=RECEIPT_MS, **values)
        return caller, context.executor.start(script, self._key, args, must=True)

    async def answer(self, started: Started) -> Any:
        """Return the raw reply to a call; errors as for `Executor.run`."""
        caller, call = started
        reply = await self._context.executor.answer(call)
        # Only now: without an answer it is unknown when, or whether, this call is served.
        self._free.append(caller)
        return reply

    async def run(self, change: Receipted) -> Any:
        """Send a change and return its raw reply. If cancelled, it is carried out all the same."""
        return await self.answer(self.start(change))
