"""Every exclusive lock-like thing that both sides have, and how to come by it on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import CountDownLatch, PermitExpirableSemaphore, Redisson, Semaphore
from redisson_py.composite._ownership import CompositeLock
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.java import RedissonFactory
from tests.interop.java import MS, Java, JavaObject
from tests.interop.waits import until_asleep
from tests.support.monitor import Monitor
from tests.support.streams import answered
from tests.support.waiting import listens, until

#: Seconds, longer than any test: who is let in within `SOON` was told, however slow the machine is.
LONG = 600
SOON = 60

Waitable = LockLike | Semaphore | PermitExpirableSemaphore | CountDownLatch


@dataclass(frozen=True)
class Kind:
    """A kind of lock.

    Attributes:
        ours: Makes one of this library: one client a server, and a name.
        theirs: Makes Redisson's, and what it is made of.
        servers: On how many servers it is.
        reentrant: Whether its holder may acquire it again.
        queues: Whether who waits has a place in Redis.
        joint: Whether it is made of others; Redisson tells nothing of such a lock.
        strict: Whether Redisson's `unlock` raises when the caller does not hold it.
    """

    ours: Callable[[Sequence[Redisson], str], LockLike]
    theirs: Callable[[Sequence[JavaObject], str], Awaitable[list[JavaObject]]]
    servers: int = 1
    reentrant: bool = True
    queues: bool = False
    joint: bool = False
    strict: bool = True


def _simple(method: str) -> Callable[[Sequence[JavaObject], str], Awaitable[list[JavaObject]]]:
    async def make(redissons: Sequence[JavaObject], name: str) -> list[JavaObject]:
        return [await redissons[0].get(method, name)]

    return make


async def _write(redissons: Sequence[JavaObject], name: str) -> list[JavaObject]:
    both = await redissons[0].get("getReadWriteLock", name)
    return [await both.get("writeLock")]


async def _multi(redissons: Sequence[JavaObject], name: str) -> list[JavaObject]:
    members = [await redissons[0].get("getLock", each) for each in (name, f"{name} 2")]
    return [await redissons[0].get("getMultiLock", *members), *members]


async def _red(redissons: Sequence[JavaObject], name: str) -> list[JavaObject]:
    members = [await each.get("getLock", name) for each in redissons]
    whole = await redissons[0].get("getRedLock", *members)
    # It says that of each one.
    said = await whole.java.driver.call("complaints", thread="looks on")
    usual = ("RedLock object is deprecated", "Event loop shut down?")
    assert all(any(part in row for part in usual) for row in said), said
    return [whole, *members]


KINDS = {
    "lock": Kind(lambda clients, name: clients[0].get_lock(name), _simple("getLock")),
    "non_reentrant_lock": Kind(
        lambda clients, name: clients[0].get_lock(name, reentrant=False),
        _simple("getNonReentrantLock"),
        reentrant=False,
    ),
    "fenced_lock": Kind(
        lambda clients, name: clients[0].get_fenced_lock(name), _simple("getFencedLock")
    ),
    "fair_lock": Kind(
        lambda clients, name: clients[0].get_fair_lock(name), _simple("getFairLock"), queues=True
    ),
    "non_reentrant_fair_lock": Kind(
        lambda clients, name: clients[0].get_fair_lock(name, reentrant=False),
        _simple("getNonReentrantFairLock"),
        reentrant=False,
        queues=True,
    ),
    "write_lock": Kind(
        lambda clients, name: clients[0].get_read_write_lock(name).write_lock(),
        _write,
    ),
    "multi_lock": Kind(
        lambda clients, name: clients[0].get_multi_lock(
            clients[0].get_lock(name), clients[0].get_lock(f"{name} 2")
        ),
        _multi,
        joint=True,
    ),
    "red_lock": Kind(
        lambda clients, name: clients[0].get_red_lock(*(each.get_lock(name) for each in clients)),
        _red,
        servers=3,
        joint=True,
        strict=False,
    ),
}


def only(wanted: Callable[[Kind], bool]) -> pytest.MarkDecorator:
    """Have the scenes of a test be those of some kinds only."""
    names = [name for name, kind in KINDS.items() if wanted(kind)]
    return pytest.mark.parametrize("scene", names, indirect=True)


class Theirs:
    """A lock of Redisson's.

    Attributes:
        lock: The lock.
        members: What it is made of; itself, if of nothing.
        redissons: The clients it was made by.
    """

    def __init__(self, java: Java, objects: list[JavaObject], redissons: list[JavaObject]) -> None:
        self.lock, *members = objects
        self.members = members or [self.lock]
        self.redissons = redissons
        self._java = java
        # A thread that hangs in one test must not hold up another.
        self._threads = java.new_name()

    def thread(self, name: str) -> str:
        """Return what the Java machine calls a thread."""
        return f"{self._threads} {name}"

    def send(self, method: str, *args: object, thread: str = "a") -> asyncio.Future[Any]:
        """Call a method, without waiting for its result."""
        return self.lock.call(method, *args, thread=self.thread(thread))

    async def call(self, method: str, *args: object, thread: str = "a") -> Any:
        """Call a method and wait for its result."""
        return await self.send(method, *args, thread=thread)

    async def try_lock(self, thread: str = "a", lease_time: float | None = None) -> bool:
        """Ask once, and wait for nothing but the answer."""
        args = [] if lease_time is None else [0, round(1000 * lease_time), MS]
        return bool(await self.call("tryLock", *args, thread=thread))

    async def waits(self, thread: str = "b") -> asyncio.Future[bool]:
        """Have a thread wait, for longer than a test takes; return when it sleeps."""
        # In its fair locks, 3.27.2 takes whatever unit is given here for milliseconds.
        waiting = self.send("tryLock", 1000 * LONG, MS, thread=thread)
        await self.until_asleep(thread)
        return waiting

    async def until_asleep(self, thread: str = "b") -> None:
        """Return when a thread has asked, was refused, and waits for a message."""
        await until_asleep(self.lock, self.thread(thread))

    async def of_thread(self, method: str, thread: str) -> Any:
        """Call a method of the driver about a thread."""
        return await self._java.driver.call(method, self.thread(thread), thread="looks on")

    async def unlock(self, thread: str = "a") -> None:
        """Release one hold of a thread."""
        await self.call("unlock", thread=thread)

    def unlock_unheard(self) -> None:
        """Release one hold; this event loop has no turn meanwhile to hear of it."""
        name, thread = self.lock.name, self.thread("a")
        self._java.order(name, "unlock", (), thread).result(SOON)

    async def force_unlock(self) -> None:
        """Free it whoever holds it; what is made of others has no such method in Redisson."""
        thread = self.thread("operator")
        assert any([await each.call("forceUnlock", thread=thread) for each in self.members])

    async def owner(self, thread: str = "a") -> str:
        """Return what Redisson calls a thread of its first client."""
        number = await self.of_thread("threadId", thread)
        return f"{await self.redissons[0].call('getId')}:{number}"


class Scene:
    """A lock of one kind, and services of both sides that want it.

    Attributes:
        kind: What kind it is.
        name: What it is called; no other's name is in it.
        java: The Java machine.
        redis: A plain client of each server that it is on.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        java: Java,
        clients: ClientFactory,
        redissons: RedissonFactory,
        redis: Redis,
        server_url: str,
        fleet: Fleet | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.java = java
        self.redis = [redis] if fleet is None else fleet.redis[: kind.servers]
        servers = [] if fleet is None else fleet.servers[: kind.servers]
        self._urls = [server.url for server in servers] or [server_url]
        self._clients = clients
        self._redissons = redissons
        self._fleet = fleet
        self._made: list[Redisson] = []

    def ours(self, **options: Any) -> LockLike:
        """Return a lock of clients of its own."""
        # A waiter in a fair queue asks again three times a lease: not within a test.
        options = {"lease_time": LONG, **options}
        if self._fleet is None:
            clients = [self._clients(**options)]
        else:
            clients = self._fleet.clients(self.kind.servers, **options)
        self._made += clients
        return self.kind.ours(clients, self.name)

    async def theirs(
        self,
        java: Java | None = None,
        redissons: list[JavaObject] | None = None,
        **settings: Any,
    ) -> Theirs:
        """Return a lock of Redisson clients of its own, or of those that are given.

        Args:
            java: Another Java machine to have the clients in.
            redissons: The clients.
            settings: For `connect`.
        """
        machine = java or self.java
        if redissons is None:
            connect = self._redissons if java is None else machine.connect
            redissons = [await connect(url, **settings) for url in self._urls]
        return Theirs(machine, await self.kind.theirs(redissons, self.name), redissons)

    def called(self, name: str) -> Scene:
        """Return one of the same kind with another name."""
        scene = copy(self)
        scene.name = name
        return scene

    async def holding(self) -> list[Redis]:
        """Return clients of the servers where it is held: of all, or of a quorum."""
        await self._settled()
        found = [redis for redis in self.redis if await redis.exists(self.name)]
        assert len(found) > len(self.redis) / 2
        return found

    async def _settled(self) -> None:
        # Our red locks wait for no more servers than they need: what they asked the others is
        # answered now, and then what they did about the answer is carried out.
        for _ in range(2):
            await asyncio.gather(*map(answered, self._made))

    async def state(self) -> list[Any]:
        """Return what the servers keep of it: who holds, who is in which queue."""
        await self._settled()
        found: list[Any] = []
        for redis in self.redis:
            for key in sorted(await redis.keys(f"*{self.name}*")):
                match await redis.type(key):
                    case b"hash":
                        found.append((key, await redis.hgetall(key)))
                    case b"list":
                        found.append((key, await redis.lrange(key, 0, -1)))
                    case b"zset":
                        found.append((key, await redis.zrange(key, 0, -1)))
        return found

    @asynccontextmanager
    async def nothing_said(self) -> AsyncIterator[None]:
        """Fail if inside anything is published about this lock."""
        async with AsyncExitStack() as stack:
            monitors = [await stack.enter_async_context(Monitor(redis)) for redis in self.redis]
            yield
            assert not any([await monitor.messages(self.name) for monitor in monitors])


def clients_of(lock: Waitable) -> list[Any]:
    """Return the insides of the clients that something was made by."""
    members: Sequence[Any] = lock._members if isinstance(lock, CompositeLock) else [lock]
    return list({id(each._context): each._context for each in members}.values())


async def until_ours_waits(lock: Waitable) -> None:
    """Return when a task has asked for it, was refused, and waits for a message."""
    contexts = clients_of(lock)
    await until(lambda: all(listens(each) for each in contexts))


def that_look_again(scenes: Sequence[Scene]) -> list[Scene]:
    """Return those where Java's waiters are in at the end of a lease.

    Before 3.32 one that waits for a fair lock, and asks a moment too early, sleeps on.
    """
    return [scene for scene in scenes if not scene.kind.queues or scene.java.since(3, 32)]


def must_look_again(method: str, java: Java) -> None:
    """Skip a test in which Java's waiters are in at the end of a lease, where they may sleep on."""
    if method == "getFairLock" and not java.since(3, 32):
        pytest.skip(f"in Redisson {java.release} one that asks a moment too early sleeps on")


async def at_once(
    scenes: Sequence[Scene], play: Callable[[Scene], Coroutine[Any, Any, None]]
) -> None:
    """Do the same with locks of all kinds at the same time, where it takes its time."""
    async with asyncio.timeout(3 * SOON), asyncio.TaskGroup() as group:
        for scene in scenes:
            group.create_task(play(scene), name=scene.name)
