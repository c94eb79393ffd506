"""Where a lifecycle is played on a store other than Redis, and what it is played with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from redisson_py import Lease
from redisson_py._stores.client import StoreClient
from tests.lifecycle.records import Straggler
from tests.lifecycle.subjects import Subject
from tests.stores.backends import Backend
from tests.stores.raw_proxy import RawProxy
from tests.support.any_client import Client
from tests.support.waiting import until


class StoreLink(RawProxy):
    """Breaks the connections of the client behind it."""

    def cut_after_execution(self, match: Straggler) -> None:
        """Lose what the server says next, with its connection; no bytes arrive late."""
        self.lose_next()


class StoreSurroundings:
    """One server of a store; links are proxies of bytes.

    Its memory is never full, and nothing of it arrives late.

    Args:
        backend: The server.
    """

    redis = None

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def open(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        # A client of ours, because a failed example may have left something.
        self._lock = (await stack.enter_async_context(self.client())).get_lock("k")
        await self.clear()

    def client(self, **options: Any) -> Client:
        return self._backend.client(**options)

    async def link(self) -> StoreLink:
        return await self._stack.enter_async_context(StoreLink(self._backend.server.port))

    def behind(self, link: StoreLink, **options: Any) -> Client:
        return self._backend.client(self._backend.url_at(link.port), **options)

    def set_memory(self, most: int) -> None:
        """Do nothing: it has no such setting."""

    async def deliver(self, commands: list[bytes]) -> None:
        """Do nothing: there are none."""

    async def answered(self, client: StoreClient) -> None:
        await client.ping()
        lines = client._executor.carrier.lines
        await until(lambda: not any(line.working for line in lines.values()))

    async def clear(self) -> None:
        while await self._lock.force_release():
            pass

    async def lasting(self) -> list[bytes]:
        seen = await self._lock.inspect()
        return [each.owner.encode() for each in seen.holders] + list(map(str.encode, seen.waiters))


class StoreSubject(Subject):
    """A lock of a store, which knows one hold of an owner, whatever its hold count.

    Args:
        fenced: It is a fenced lock.
        ends_leases: The server knows when a lease ends.
        precision: By how many seconds what it says of that may be less.
    """

    counts_holds = False

    def __init__(self, *, fenced: bool, ends_leases: bool, precision: float = 0.0) -> None:
        super().__init__(
            lambda client, side: client.get_fenced_lock("k") if fenced else client.get_lock("k")
        )
        self._ends_leases = ends_leases
        self._precision = precision

    async def taken(self, redis: None, observer: Any) -> list[int]:
        return [len((await observer.get_lock("k").inspect()).holders)]

    async def lease_ends(
        self, redis: None, observer: Any, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        if not self._ends_leases:
            return []
        seen = (await observer.get_lock("k").inspect()).holders
        left = {each.owner: each.remaining + self._precision for each in seen}
        return [(lease, left.get(lease.owner, -2.0)) for lease in leases]

    async def owners(self, redis: None, keys: Sequence[str]) -> set[str]:
        """Return none: the state machine's own knowledge says whose hold it deletes."""
        return set()

    async def delete(self, redis: None, observer: Any) -> None:
        await observer.get_lock("k").force_release()
