"""Random lifecycles of locks over every store, checked from outside after every step.

Those of `tests/lifecycle/`, but that the memory of the server is never full, and that no bytes of a
broken connection arrive late: what a lost reply leaves is on the way to the server by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from redisson_py import Lease
from redisson_py._stores.client import StoreClient
from tests.lifecycle.play import Play
from tests.lifecycle.records import Straggler
from tests.lifecycle.running import run_plays
from tests.lifecycle.subjects import PERMITS, SemaphoreSubject, Subject
from tests.stores.backends import BACKENDS, Backend, PostgresBackend
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
        subject: What is played with.
    """

    redis = None

    def __init__(self, backend: Backend, subject: Subject) -> None:
        self._backend = backend
        self._subject = subject

    async def open(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        # A client of ours, because a failed example may have left something.
        client: Any = await stack.enter_async_context(self.client())
        self._locks = [self._subject.make(client, side) for side in self._subject.sides]
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
        queues = client._executor.carrier.queues
        await until(lambda: not any(queue.working for queue in queues.values()))

    async def clear(self) -> None:
        if self._subject.is_semaphore:
            for each in self._locks:
                await each.delete()
            return
        while any([await lock.force_release() for lock in self._locks]):
            pass

    async def lasting(self) -> list[bytes]:
        found = []
        for lock in self._locks:
            seen = await lock.inspect()
            waiting = (
                [each.owner for each in seen.waiting]
                if self._subject.is_semaphore
                else seen.waiters or ()
            )
            found += [*(each.owner for each in seen.holders), *waiting]
        return list(map(str.encode, found))


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

    async def taken(self, redis: Any, observer: Any) -> list[int]:
        return [len((await observer.get_lock("k").inspect()).holders)]

    async def lease_ends(
        self, redis: Any, observer: Any, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        if not self._ends_leases:
            return []
        seen = (await observer.get_lock("k").inspect()).holders
        left = {each.owner: each.remaining + self._precision for each in seen}
        return [(lease, left.get(lease.owner, -2.0)) for lease in leases]

    async def owners(self, redis: Any, keys: Sequence[str]) -> set[str]:
        """Return none: the state machine's own knowledge says whose hold it deletes."""
        return set()

    async def delete(self, redis: Any, observer: Any) -> None:
        await observer.get_lock("k").force_release()


class SidesSubject(Subject):
    """A read-write lock of a store, whose leases the client ends."""

    counts_holds = False
    spares_reads_of_writers = False

    def __init__(self) -> None:
        super().__init__(_side, sides=("write", "read"))

    async def taken(self, redis: Any, observer: Any) -> list[int]:
        return [int(bool((await observer.get_read_write_lock("k").inspect()).holders))]

    async def lease_ends(
        self, redis: Any, observer: Any, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        return []

    async def owners(self, redis: Any, keys: Sequence[str]) -> set[str]:
        """Return none, as for a lock."""
        return set()

    async def delete(self, redis: Any, observer: Any) -> None:
        for side in self.sides:
            await _side(observer, side).force_release()


class EndingSidesSubject(SidesSubject):
    """A read-write lock of a store that ends leases, and knows when."""

    async def lease_ends(
        self, redis: Any, observer: Any, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        seen = (await observer.get_read_write_lock("k").inspect()).holders
        left = {each.owner: each.remaining for each in seen}
        return [(lease, left.get(lease.owner, -2.0)) for lease in leases]


class StoreSemaphoreSubject(SemaphoreSubject):
    """A semaphore of a store."""

    def __init__(self) -> None:
        super().__init__(
            lambda client, side: client.get_semaphore("semaphore"),
            most_units=2,
            takes_lease_time=False,
        )

    async def delete(self, redis: Any, observer: Any) -> None:
        await self.make(observer, "").delete()
        await self.make(observer, "").try_set_permits(PERMITS)


def _side(client: Any, side: str) -> Any:
    lock = client.get_read_write_lock("k")
    return lock.read_lock() if side == "read" else lock.write_lock()


EXAMPLES = 30
STORES = [name for name in BACKENDS if name != "redis"]
#: The stores that have each, in the order of the seeds.
PLAYED = {
    "lock": STORES,
    "fenced_lock": STORES,
    "read_write_lock": ["postgres", "etcd", "zookeeper"],
    "semaphore": ["postgres"],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("played", "backend"),
    [(played, store) for played, stores in PLAYED.items() for store in stores],
    indirect=["backend"],
)
def test_no_lifecycle_breaks_an_invariant(backend: Backend, played: str) -> None:
    subject: Subject
    if played == "semaphore":
        subject = StoreSemaphoreSubject()
    elif played == "read_write_lock":
        # The client ends what it holds of one in etcd, as in ZooKeeper.
        in_postgres = isinstance(backend, PostgresBackend)
        subject = EndingSidesSubject() if in_postgres else SidesSubject()
    else:
        subject = StoreSubject(
            fenced=played == "fenced_lock",
            ends_leases=backend.ends_leases,
            precision=backend.precision,
        )

    def make() -> Play:
        return Play(subject, StoreSurroundings(backend, subject))

    run_plays(make, examples=EXAMPLES, number=18 + [*PLAYED].index(played), shrink=False)
