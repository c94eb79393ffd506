"""What everything that can be held must satisfy is written once and run over each kind of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.support.kinds import KINDS, SEMAPHORES, Kind, Make, MakeLock, as_lock
from tests.support.leases import renew_now
from tests.support.streams import answered
from tests.support.waiting import until, until_async


class Servers:
    """The servers that things of one kind live on: the session's, and others beside it.

    Attributes:
        all: A plain client of each.
    """

    def __init__(self, kind: Kind, redis: Redis, fleet: Fleet | None) -> None:
        self.all = [redis]
        self._kind = kind
        self._fleet = fleet
        self._beside: dict[Redisson, list[Redisson]] = {}
        if fleet is not None:
            self.all += fleet.redis[: kind.servers - 1]

    def clients(self, client: Redisson) -> list[Redisson]:
        """Return a client and those of the servers beside, which have its options."""
        if self._fleet is None:
            return [client]
        if client not in self._beside:
            options = client._options
            self._beside[client] = self._fleet.clients(
                self._kind.servers - 1,
                lease_time=options.lease_time,
                on_lost=options.on_lost,
                turn=options.turn,
            )
        return [client, *self._beside[client]]

    def make(self, make: Make, client: Redisson, name: Any) -> LockLike:
        """Make something of this kind."""
        return as_lock(make(self.clients(client), name, self._kind.units), self._kind)

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

    async def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            for redis in self.all:
                for key in (name, f"{{{name}}}:redisson_py:permits", f"{{{name}}}:timeout"):
                    await redis.delete(key)

    def renew_now(self, client: Redisson) -> None:
        """Have a client, and those beside it, renew what they hold at once."""
        for each in self.clients(client):
            renew_now(each)

    async def until_waiting(self, client: Redisson, count: int) -> None:
        """Return when `count` tasks of a client wait, which one of those beside it may count."""
        clients = self.clients(client)
        await until(lambda: max(each.statistics().waiters for each in clients) == count)

    async def answered(self, client: Redisson) -> None:
        """Return when every server has executed what was sent to it."""
        await asyncio.gather(*[answered(each) for each in self.clients(client)])

    async def until_gone(self) -> None:
        """Return when no server has the key any more."""

        async def gone() -> bool:
            return not any([await redis.exists("k") for redis in self.all])

        await until_async(gone)


class Each:
    """One of the kinds that a test has beside each other: its client and name are its own."""

    def __init__(self, kind: Kind, name: str, client: Redisson, servers: Servers) -> None:
        self.kind = kind
        self.name = name
        self.client = client
        self.servers = servers
        self.lock = servers.make(kind.make, client, name)

    def rival(self, client: Redisson) -> LockLike:
        """Make what cannot be acquired while it is held."""
        return self.servers.make(self.kind.rival or self.kind.make, client, self.name)


Every = Callable[..., list[Each]]


@pytest_asyncio.fixture
async def every(clients: ClientFactory, redis: Redis, fleet: Fleet) -> AsyncIterator[Every]:
    """Return the kinds to which a claim applies, for what takes long: all wait at the same time.

    `every(is_lock, lease_time=3)`: options are those of the clients.
    """

    def chosen(applies: Callable[[Kind], object], **options: Any) -> list[Each]:
        # In a cluster, all in the slot before which a proxy stands.
        return [
            Each(kind, f"{{k}}{name}", clients(**options), servers)
            for name, kind in KINDS.items()
            for servers in [Servers(kind, redis, fleet if kind.servers > 1 else None)]
            if applies(kind)
        ]

    yield chosen
    # Counters last for ever.
    await redis.delete(*[f"{{k}}{name}" for name in SEMAPHORES])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of thing that can be held."""
    return KINDS[request.param]


@pytest.fixture
def beside(kind: Kind, request: pytest.FixtureRequest) -> Fleet | None:
    """Other servers than the session's, for what lives on several."""
    return request.getfixturevalue("fleet") if kind.servers > 1 else None


@pytest_asyncio.fixture
async def servers(kind: Kind, redis: Redis, beside: Fleet | None) -> AsyncIterator[Servers]:
    """The servers of this kind."""
    yield Servers(kind, redis, beside)
    if kind.semaphore:
        # Counters last for ever, and with them the leases that ended since their last use.
        await redis.flushdb()


@pytest.fixture
def make_lock(kind: Kind, servers: Servers) -> MakeLock:
    """Make one of this kind: `make_lock(client, "name")`."""
    return lambda client, name="k": servers.make(kind.make, client, name)


@pytest.fixture
def make_rival(kind: Kind, servers: Servers) -> MakeLock:
    """Make what cannot be acquired while one of this kind is held."""
    return lambda client, name="k": servers.make(kind.rival or kind.make, client, name)


@pytest.fixture
def lock(client: Redisson, make_lock: MakeLock) -> LockLike:
    """One of this kind."""
    return make_lock(client)


def over(applies: Callable[[Kind], object]) -> pytest.MarkDecorator:
    """Run a test over the kinds to which its claim applies."""
    names = [name for name, kind in KINDS.items() if applies(kind)]
    return pytest.mark.parametrize("kind", [KINDS[name] for name in names], ids=names)


def is_single(kind: Kind) -> bool:
    """Whether it is a single lock, with an owner of its own in Redis."""
    return not kind.semaphore and not kind.composite


def is_central(kind: Kind) -> bool:
    """Whether it lives on one server."""
    return kind.servers == 1


def is_lock(kind: Kind) -> bool:
    """Whether it belongs to a task."""
    return not kind.semaphore


def is_reentrant(kind: Kind) -> bool:
    """Whether its task may acquire it again."""
    return kind.reentrant and not kind.semaphore


def is_passing(kind: Kind) -> bool:
    """Whether it is passed from task to task, with its owner."""
    return kind.passes and is_single(kind)


locks = over(is_lock)
"""For tests of what belongs to a task: who owns it, how often, and who may release it."""

exclusive = over(lambda kind: kind.rival is None)
exclusive_locks = over(lambda kind: kind.rival is None and not kind.semaphore)
"""For tests of several tasks of which one can have it."""

timed = over(lambda kind: kind.timed)
"""For tests of a `lease_time`."""

central = over(is_central)
central_locks = over(lambda kind: kind.servers == 1 and not kind.semaphore)
"""For tests of what happens to the one server that has it, and of its key there."""

single = over(is_single)
"""For tests that look at the owner in Redis."""

reentrant = over(is_reentrant)
single_reentrant = over(lambda kind: kind.reentrant and is_single(kind))
"""For tests that enter it again."""

passing = over(is_passing)
"""For tests of what is passed from task to task."""
