"""The client of a store other than Redis.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from redisson_py import ClientStatistics
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._client_like import ClientLike
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._store_locks import FencedStoreLock, StoreLock


class StoreClient(ClientLike):
    """Base of the clients of stores: makes locks and keeps what they hold.

    Use it as `with`, or call `close()` in the end; `with` opens it again, with a new id.
    Nothing connects until first use. A client that has connected cannot be used after a fork.

    Args:
        make_store: Makes the store, for a lease time in seconds.
        options: See `StoreOptions`.
    """

    @property
    def id(self) -> str:
        """The client's id. It is the first part of every owner of this client."""
        client_id: str = self._working.id
        return client_id

    @explained
    def ping(self, *, timeout: Duration | None = None) -> None:
        """Return when the store has answered. Interrupting is harmless.

        Args:
            timeout: Seconds to wait, connecting included; None for `command_timeout`, 0 fails with
                the first attempt that fails.

        Raises:
            ConnectionLostError: It did not answer in time.
            BackendError: It refused us.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        self._call(lambda own: own.ping(timeout=timeout))

    @explained
    def get_lock(self, name: Name, *, reentrant: bool = True) -> StoreLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
        """
        return StoreLock(lambda of: of(self).get_lock(name, reentrant=reentrant))

    @explained
    def get_fenced_lock(self, name: Name) -> LockOf[FencedLease]:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        return FencedStoreLock(lambda of: of(self).get_fenced_lock(name))

    def statistics(self) -> ClientStatistics:
        """Return local counters. No I/O."""
        value: ClientStatistics = self._look(lambda own: own.statistics())
        return value

    def close(self) -> None:
        """Close: release what is still held, send waiters away, disconnect. Idempotent.

        Waiters get `ClientClosedError`. What is still held is released, with one warning that names
        it; a block that is still running learns that it lost its lock. A second call returns when
        the first has finished. If interrupted, the client is closed all the same, in the
        background.
        """
        self._close()

    def __enter__(self) -> Self:
        self._call(lambda own: own.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
