"""FencedLock: a lock whose every grant carries a greater number."""

from __future__ import annotations

from typing import Any, Self, final

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._primitives.context import Context
from redisson_py._primitives.exclusive import ExclusiveLock
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._waiting import Granted

ACQUIRE = source.load("fenced_lock.acquire")

#: Fencing tokens taken with each grant, so that a hold can be passed as often in this process.
_TOKENS = 64


@final
class FencedLock(ExclusiveLock):
    """A reentrant lock whose leases carry a fencing token, for resources that can check it.

    `lease.token` is greater than that of every earlier holder. Send it with each write, and
    have the protected resource refuse a smaller one than it has seen: then a holder that was
    paused past its lease can do no harm. Re-entry keeps the token.

    Use it instead of `RLock` where correctness, not only efficiency, hangs on the lock. Both
    must not be mixed on one name: a plain lock takes no token.

    Promised: tokens grow from holder to holder as long as the counter survives in Redis, or
    the server's clock is not behind by more than its loss took. Not promised: that tokens
    are consecutive, or that Redisson's `getToken` (the last one issued) is a holder's; nor,
    after Redis lost its data, that a hold passed among this client's tasks has a greater
    token than another process got meanwhile: that hold is lost, and the resource refuses it.

    Protocol: Redisson's RFencedLock, its counter raised to max(last + 1, server microseconds);
    see Kleppmann, "How to do distributed locking", 2016.
    """

    kind = "fenced lock"
    _tokens = _TOKENS

    def __init__(self, context: Context, name: Name) -> None:
        super().__init__(context, name)
        self._token_key = _keys.fencing_token(self._key)
        self._more_keys = (self._token_key,)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name)

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        name = owner.encode()
        args = ACQUIRE.bind(
            lock=self._key,
            tombstone=self._tombstones + name,
            token=self._token_key,
            owner=name,
            holds=holds,
            lease_ms=lease_ms,
            tokens=_TOKENS,
        )
        return self._context.executor.start(ACQUIRE, self._key, args, deadline)

    @staticmethod
    def _read(reply: Any) -> Granted[int] | int:
        code, value = reply
        if code == 1:
            return Granted(value)
        return int(value) if code == 0 else int(code)
