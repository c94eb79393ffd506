"""Every primitive as each side has it: something to take, to wait for and to give back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from redisson_py import Redisson
from tests.interop.java import MS, JavaObject
from tests.interop.kinds import KINDS, Kind
from tests.interop.waits import until_asleep
from tests.support.waiting import until

#: Longer than any test: a wait that ends was ended by a message.
LONG_MS = 60_000


class JavaSide:
    """Redisson's handle of a primitive: take it, begin to wait for it, give it back.

    Args:
        taking: What is taken.
        waiting: What is waited for; another object for the other side of a read-write lock.
        words: The methods that take, wait and give back, with their arguments.
    """

    def __init__(self, taking: JavaObject, waiting: JavaObject, words: Words) -> None:
        self._taking = taking
        self._waiting = waiting
        self._words = words
        # Of its own: a thread that hangs in one test must not be taken for another one's.
        number = taking.java.new_name()
        self._threads = (f"{number} holds", f"{number} waits")
        self._got: asyncio.Future[Any] | None = None
        self._id: tuple[Any, ...] = ()

    async def take(self) -> None:
        method, *args = self._words.take
        answer = await self._taking.call(method, *args, thread=self._threads[0])
        assert answer
        self._id = (answer,) if self._words.ids else ()

    async def wait(self) -> asyncio.Future[Any]:
        method, *args = self._words.wait
        waiting = self._got = self._waiting.call(method, *args, thread=self._threads[1])
        await until_asleep(self._waiting, self._threads[1])
        return waiting

    async def give(self) -> None:
        await self._taking.call(self._words.give, *self._id, thread=self._threads[0])

    async def interrupt(self) -> None:
        """Have what waits end with an error."""
        driver = self._waiting.java.driver
        await driver.call("interrupt", self._threads[1], thread="looks on")

    async def done(self) -> None:
        assert self._got is not None
        answer = await self._got
        assert answer is not False
        if self._words.one_way:
            return
        ids = (answer,) if self._words.ids else ()
        await self._waiting.call(self._words.give, *ids, thread=self._threads[1])


class OurSide:
    """Ours, with the same methods.

    Args:
        client: The client.
        taking: What is taken.
        waiting: What is waited for.
        name: What it is called.
    """

    def __init__(self, client: Redisson, taking: Any, waiting: Any, name: str) -> None:
        self._client = client
        self._taking = taking
        self._waiting = waiting
        self._name = name.encode()
        self._lease: Any = None
        self._got: asyncio.Future[Any] | None = None

    async def take(self) -> None:
        self._lease = await self._taking.try_acquire()
        assert self._lease is not None

    async def wait(self) -> asyncio.Future[Any]:
        waiting = self._got = asyncio.create_task(self._waiting.acquire())
        await self._until_asleep()
        return waiting

    async def _until_asleep(self) -> None:
        await until(lambda: waits(self._client, self._name))

    async def give(self) -> None:
        await self._lease.release()

    async def done(self) -> None:
        assert self._got is not None
        await (await self._got).release()


class OurLatch(OurSide):
    """A latch of ours: who has set it counts it down, and nobody gives it back."""

    async def take(self) -> None:
        assert await self._taking.try_set_count(1)

    async def wait(self) -> asyncio.Future[Any]:
        waiting = self._got = asyncio.create_task(self._waiting.wait())
        await self._until_asleep()
        return waiting

    async def give(self) -> None:
        assert await self._taking.count_down() == 0

    async def done(self) -> None:
        assert self._got is not None
        await self._got


Side = JavaSide | OurSide


def waits(client: Redisson, name: bytes) -> bool:
    """Return whether a task has asked for `name`, was refused, and waits for a message."""
    bell: Any = client._context.bus._bell
    stream, subscriptions = bell._stream_for, bell._channels
    return any(
        channel.seats and subscriptions[key].stream is stream(key) and is_quiet(stream(key))
        for key, channel in client._context.bus.table.channels.items()
        if name in key
    )


def is_quiet(stream: Any) -> bool:
    """Return whether a stream is connected and has all its answers."""
    return bool(stream.ready and not stream.waiting)


@dataclass(frozen=True)
class Words:
    """What Java calls it.

    Attributes:
        take: The method that takes without waiting, and its arguments.
        wait: The one that waits.
        give: The one that gives back.
        ids: What is taken has an id, and is given back by it.
        one_way: Who waited has nothing to give back.
    """

    take: tuple[Any, ...] = ("tryLock",)
    wait: tuple[Any, ...] = ("tryLock", LONG_MS, MS)
    give: str = "unlock"
    ids: bool = False
    one_way: bool = False


@dataclass(frozen=True)
class Primitive:
    """How to come by it on each side: what is taken, and what is waited for meanwhile."""

    ours: Callable[[Redisson, str], tuple[Any, Any]]
    theirs: Callable[[JavaObject, str], Awaitable[tuple[JavaObject, JavaObject]]]
    words: Words = Words()
    our_side: type[OurSide] = OurSide
    units: bool = False

    async def prepare(self, client: Redisson, name: str) -> None:
        """Make what must exist before it can be taken."""
        if self.units:
            assert await self.ours(client, name)[0].try_set_permits(1)

    def of_us(self, client: Redisson, name: str) -> Side:
        """Return our side."""
        return self.our_side(client, *self.ours(client, name), name)

    async def of_java(self, redisson: JavaObject, name: str) -> Side:
        """Return Redisson's side."""
        return JavaSide(*await self.theirs(redisson, name), self.words)


def _same(
    method: str,
) -> Callable[[JavaObject, str], Awaitable[tuple[JavaObject, JavaObject]]]:
    async def make(redisson: JavaObject, name: str) -> tuple[JavaObject, JavaObject]:
        made = await redisson.get(method, name)
        return made, made

    return make


def _read_write(
    taking: str, waiting: str
) -> Callable[[JavaObject, str], Awaitable[tuple[JavaObject, JavaObject]]]:
    async def make(redisson: JavaObject, name: str) -> tuple[JavaObject, JavaObject]:
        both = await redisson.get("getReadWriteLock", name)
        return await both.get(taking), await both.get(waiting)

    return make


def _lock(kind: Kind) -> Primitive:
    async def theirs(redisson: JavaObject, name: str) -> tuple[JavaObject, JavaObject]:
        made, *_ = await kind.theirs([redisson], name)
        return made, made

    return Primitive(lambda client, name: _twice(kind.ours([client], name)), theirs)


def _twice(made: Any) -> tuple[Any, Any]:
    return made, made


def _our_read_write(client: Redisson, name: str) -> tuple[Any, Any]:
    both = client.get_read_write_lock(name)
    return both.read_lock(), both.write_lock()


PRIMITIVES = {
    "lock": _lock(KINDS["lock"]),
    "fenced lock": _lock(KINDS["fenced_lock"]),
    "fair lock": _lock(KINDS["fair_lock"]),
    "reader": Primitive(_our_read_write, _read_write("readLock", "writeLock")),
    "writer": Primitive(
        lambda client, name: _our_read_write(client, name)[::-1],
        _read_write("writeLock", "readLock"),
    ),
    "semaphore": Primitive(
        lambda client, name: _twice(client.get_semaphore(name)),
        _same("getSemaphore"),
        Words(("tryAcquire",), ("acquire",), "release"),
        units=True,
    ),
    "permits with ids": Primitive(
        lambda client, name: _twice(client.get_permit_expirable_semaphore(name)),
        _same("getPermitExpirableSemaphore"),
        Words(("tryAcquire",), ("acquire",), "release", ids=True),
        units=True,
    ),
    "latch": Primitive(
        lambda client, name: _twice(client.get_latch(name)),
        _same("getCountDownLatch"),
        Words(("trySetCount", 1), ("await",), "countDown", one_way=True),
        OurLatch,
    ),
    # In a cluster its members are in different slots.
    "multi lock": _lock(KINDS["multi_lock"]),
}
