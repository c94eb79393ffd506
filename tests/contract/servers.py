"""The servers that things of one kind live on, of Redis and of the other stores."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import FaultProxy
from tests.fixtures.client import assert_idle
from tests.fixtures.fleet import Fleet
from tests.stores.backends import Backend
from tests.support.cancellation_sides import RedisSide, Side, StoreSide
from tests.support.kinds import Kind, Make, as_lock
from tests.support.leases import renew_now
from tests.support.waiting import until, until_async

_numbers = itertools.count(1)


class Servers(ABC):
    """What a test sees of the servers behind its clients.

    Attributes:
        kind: What lives there.
        all: A plain client of each server of Redis.
        side: How the one server is looked at.
        precision: By how many seconds what a server says of a lease may differ.
    """

    side: Side
    precision = 0.0

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.all: list[Redis] = []

    def clients(self, client: Any) -> list[Any]:
        """Return a client and those of the servers beside, which have its options."""
        return [client]

    def make(self, make: Make, client: Any, name: Any) -> LockLike:
        """Make something of this kind."""
        return as_lock(make(self.clients(client), name, self.kind.units), self.kind)

    @abstractmethod
    def unconnected(self, **options: Any) -> Any:
        """Return a client for which nothing listens: any request would fail with another error."""

    async def forget(self, *names: str) -> None:
        """Have every server forget what is held under these names.

        The loss may cancel the task that calls this, and the `wait_for` of Python 3.11, which
        redis-py uses, can swallow that. So a task of its own does it, to its end.
        """
        task = asyncio.create_task(self._forget(names))
        try:
            await asyncio.shield(task)
        finally:
            await task

    @abstractmethod
    async def _forget(self, names: tuple[str, ...]) -> None: ...

    @abstractmethod
    async def holds(self, name: str = "k") -> list[dict[str, int]]:
        """Return the owners of a lock on each server, with the hold counts that are kept there."""

    async def assert_held(self, *owners: str, count: int = 1, name: str = "k") -> None:
        """Fail unless each server says that these, or one if none is named, hold a lock.

        Each server of a red lock has a client of its own, and so an owner.
        """
        for found in await self.holds(name):
            if owners and len(self.all) <= 1:
                assert set(found) == set(owners)
            else:
                assert len(found) == 1
            # Other stores keep one hold of an owner, however often it entered.
            assert set(found.values()) == {count if self.all else 1}

    def assert_left(self, left: float | None, lease_time: float, since: float) -> None:
        """Fail unless a lease that was set after `since` has `lease_time` seconds, as it seems.

        Of one that the client ends, a server says how long it keeps a client that died.
        """
        assert left is not None
        if self.kind.ends_leases:
            gone = now() - since
            assert lease_time - 1 - gone - self.precision < left <= lease_time + self.precision
        else:
            assert left > 0

    def renew_now(self, client: Any) -> None:
        """Have a client, and those beside it, renew what they hold at once."""
        for each in self.clients(client):
            renew_now(each)

    async def until_waiting(self, client: Any, count: int) -> None:
        """Return when `count` tasks of a client wait, which one of those beside it may count."""
        clients = self.clients(client)
        await until(lambda: max(each.statistics().waiters for each in clients) == count)

    async def until_listening(self, client: Any) -> None:
        """Return when the head of a queue of this client has asked, heard "busy", and sleeps."""
        await self.side.until_listening(client)

    async def answered(self, client: Any) -> None:
        """Return when every server has executed what was sent to it."""
        await asyncio.gather(*[self.side.answered(each) for each in self.clients(client)])

    async def settled(self, client: Any) -> None:
        """Return when what abandoned operations left was carried out."""
        await asyncio.gather(*[self.side.settled(each) for each in self.clients(client)])

    @abstractmethod
    async def assert_nobody_waits(self) -> None:
        """Fail if the server knows of somebody who waits."""

    async def gone(self) -> bool:
        """Return whether no server has the lock any more."""
        return not any(await self.holds())

    async def until_gone(self) -> None:
        """Return when no server has the lock any more."""
        await until_async(self.gone)


class RedisServers(Servers):
    """The session's server, and for a red lock others beside it."""

    def __init__(self, kind: Kind, redis: Redis, fleet: Fleet | None) -> None:
        super().__init__(kind)
        self.side = RedisSide(redis)
        self.all = [redis]
        self._fleet = fleet
        self._beside: dict[Redisson, list[Redisson]] = {}
        if fleet is not None:
            self.all += fleet.redis[: kind.servers - 1]

    def clients(self, client: Any) -> list[Any]:
        if self._fleet is None:
            return [client]
        if client not in self._beside:
            options = client._context.options
            self._beside[client] = self._fleet.clients(
                self.kind.servers - 1,
                lease_time=options.lease_time,
                on_lost=options.on_lost,
                turn=options.turn,
            )
        return [client, *self._beside[client]]

    def unconnected(self, **options: Any) -> Redisson:
        return Redisson.from_url("redis://127.0.0.1:1", **options)

    async def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            for redis in self.all:
                held = self.kind.key(name)
                for key in (held, f"{{{name}}}:redisson_py:permits", f"{{{name}}}:timeout"):
                    await redis.delete(key)

    async def holds(self, name: str = "k") -> list[dict[str, int]]:
        return [await self.kind.owners(redis, name) for redis in self.all]

    async def assert_nobody_waits(self) -> None:
        """Return: what is left in the queues of clients is looked for after each test."""

    async def gone(self) -> bool:
        return not any([await redis.exists(self.kind.key()) for redis in self.all])


class Site:
    """A store other than Redis, for one test: whose names, clients and proxies are its own.

    Args:
        backend: The server, which tests share.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._prefix = f"{next(_numbers)}-"
        self._made: list[Any] = []
        self._links: list[FaultProxy] = []
        self._operator: Any = None

    def client(self, url: str = "", **options: Any) -> Any:
        """Return a client, which the test must leave idle; without another URL one of the server.

        As `clients` for Redis; but for the names, its options are those that a user has.
        """
        options = {"lease_time": 30.0, "prefix": self._prefix, **options}
        self._made.append(self.backend.client(url, **options))
        return self._made[-1]

    @property
    def operator(self) -> Any:
        """A client that looks, and takes away."""
        if self._operator is None:
            self._operator = self.client()
        return self._operator

    def proxy(self) -> FaultProxy:
        """Return a proxy in front of the server."""
        self._links.append(FaultProxy.in_front_of(self.backend.url, raw=True))
        return self._links[-1]

    def cut(self) -> int:
        """Break the connections through all proxies; return how many."""
        return sum(link.cut() for link in self._links)

    async def assert_idle(self) -> None:
        """Fail unless each client that is open keeps nothing."""
        for client in [each for each in self._made if not each._life.closed]:
            queues = client._executor.carrier.queues
            await until(lambda queues=queues: not queues)  # type: ignore[misc]
            assert_idle(client)

    async def aclose(self) -> None:
        """Close the clients."""
        for client in self._made:
            await client.aclose()


class StoreServers(Servers):
    """The server of another store."""

    def __init__(self, kind: Kind, site: Site) -> None:
        super().__init__(kind)
        self.precision = site.backend.precision
        self.side = StoreSide(site.cut, ends_leases=kind.ends_leases)
        self._site = site

    def unconnected(self, **options: Any) -> Any:
        return self._site.client(self._site.backend.url_at(1), **options)

    async def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            one = self.kind.one(self._site.operator, name)
            # A semaphore has nothing else that ends what others hold.
            assert await (one.delete() if self.kind.semaphore else one.force_release())

    async def assert_nobody_waits(self) -> None:
        seen = await self.kind.one(self._site.operator).inspect()
        # Of a semaphore `waiters` counts the tasks of the client that looks.
        assert not (seen.waiting if self.kind.semaphore else seen.waiters)

    async def holds(self, name: str = "k") -> list[dict[str, int]]:
        seen = await self.kind.one(self._site.operator, name).inspect()
        return [dict.fromkeys((each.owner for each in seen.holders), 1)]
