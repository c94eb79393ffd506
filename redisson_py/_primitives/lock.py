"""RLock: a reentrant lock, as Redisson's."""

from __future__ import annotations

from typing import Any, Self, final

from redisson_py._keys import Name
from redisson_py._primitives.exclusive import ExclusiveLock
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._waiting import Granted

ACQUIRE = source.load("lock.acquire")

_GRANTED = Granted(0)


@final
class RLock(ExclusiveLock):
    """A lock that one task holds at a time, across processes and hosts.

    The holder is the current asyncio task: re-entry by the same task counts, a child task is
    somebody else. One lock object may be shared by any number of tasks. With
    `reentrant=False` a second acquire by the holder raises `RuntimeError`.

    Use `FencedLock` where the protected resource can check a token, `FairLock` where the
    order of arrival matters across processes.

    Promised: at any instant at most one owner holds the lock as the server sees it, and a
    holder's own view ends before the server's. Tasks of one client are served in the order
    they came; processes take turns.

    Not promised: an order between processes; exclusion after a failover that lost the write,
    after an eviction or FLUSHALL, or when the server's clock is stepped forward; that a
    paused holder notices in time. There only a fencing token protects.

    Protocol: Redisson's RLock (a hash of owner and hold count whose expiry is the lease, a
    message on release). Passing in one process: lock cohorting, Dice, Marathe, Shavit,
    PPoPP 2012.
    """

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, reentrant=self._reentrant)

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        name = owner.encode()
        args = ACQUIRE.bind(
            lock=self._key,
            tombstone=self._tombstones + name,
            owner=name,
            holds=holds,
            lease_ms=lease_ms,
        )
        return self._context.executor.start(ACQUIRE, self._key, args, deadline)

    @staticmethod
    def _read(reply: Any) -> Granted[int] | int:
        return _GRANTED if reply is None else int(reply)
