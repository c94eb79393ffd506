"""How a scene of the cancellation sweep looks at its server: what differs between stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._engine.request import AcquireRequest
from redisson_py._stores.client import StoreClient
from tests.support.any_client import Client
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_listening


def is_asleep(client: Client) -> bool:
    """Return whether every waiter of a client waits for the release, and not for an answer."""
    pending = client._context.pending
    return not any(
        isinstance(request, AcquireRequest) and request.is_pending for request in pending
    )


class Side(Protocol):
    """A server, and what the clients of a scene have sent to it.

    Attributes:
        ends_leases: The server ends a hold when its lease is over, and knows when that is.
    """

    ends_leases: bool

    async def answered(self, client: Any) -> None:
        """Return when the server has answered what was sent before; errors as for `ping`."""

    async def settled(self, client: Any) -> None:
        """Return when everything of abandoned operations has been carried out."""

    async def lose_connection(self, client: Any) -> None:
        """Break the connections of a client; it makes others by itself."""

    async def until_listening(self, client: Any) -> None:
        """Return when the first waiter of a client has asked, heard "busy", and sleeps."""

    def ending(self, client: Any) -> Callable[[], bool]:
        """Return what says whether a client that is being closed has come to its end."""
        ...

    async def assert_free(self, lock: Any, permits: int) -> None:
        """Fail unless all is free on the server; the lock has some permits, or none."""


class RedisSide:
    """Redis.

    Args:
        redis: A plain client.
    """

    ends_leases = True

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def answered(self, client: Redisson) -> None:
        await answered(client)

    async def settled(self, client: Redisson) -> None:
        # What an abandoned operation still had to send was sent before this.
        await answered(client)

    async def lose_connection(self, client: Redisson) -> None:
        """As `Side` says; the next connection is made in the next turns of the loop."""
        stream_of(client).abort("the test says so")

    async def until_listening(self, client: Redisson) -> None:
        await until_listening(client)

    def ending(self, client: Redisson) -> Callable[[], bool]:
        root = client._life._root
        assert root is not None
        return root.done

    async def _nobody_waits(self) -> bool:
        return not await self._redis.exists("{k}:redisson_py:clients")

    async def assert_free(self, lock: Any, permits: int) -> None:
        """As `Side` says; and nothing is kept beside a counter."""
        if not permits:
            assert not await self._redis.exists("k")
            return
        assert await lock.available() == permits
        # A client that gives up leaves the queue behind its undo, which may use another connection.
        await until_async(self._nobody_waits)
        known = (b"tombstone", b"client:", b"receipt", b"total")
        kept = await self._redis.keys("*redisson_py*")
        assert [key for key in kept if not any(each in key for each in known)] == []


class StoreSide:
    """Another store.

    Args:
        cut: Breaks the connections of all clients of the scene.
        ends_leases: See `Side`.
    """

    def __init__(self, cut: Callable[[], object], *, ends_leases: bool) -> None:
        self._cut = cut
        self.ends_leases = ends_leases

    async def answered(self, client: StoreClient) -> None:
        await client.ping()
        queues = client._executor.carrier.queues
        await until(lambda: not any(queue.working for queue in queues.values()))

    async def settled(self, client: StoreClient) -> None:
        """As `Side` says: the store can have nothing of this client, and nothing is under way."""
        carrier = client._executor.carrier
        await until(lambda: not carrier.queues and not carrier.tasks)

    async def lose_connection(self, client: StoreClient) -> None:
        assert self._cut()

    async def until_listening(self, client: StoreClient) -> None:
        queues = client._executor.carrier.queues
        await until(
            lambda: (
                client._context.bus.table.seats
                and is_asleep(client)
                and not any(queue.working for queue in queues.values())
            )
        )

    def ending(self, client: StoreClient) -> Callable[[], bool]:
        tasks = client._executor.carrier.tasks
        return lambda: not tasks

    async def assert_free(self, lock: Any, permits: int) -> None:
        """As `Side` says: nobody holds it, and nobody waits for it."""
        snapshot = await lock.inspect()
        # None: it does not record who waits.
        assert snapshot.holders == ()
        # Of a semaphore `waiters` counts the tasks of the client that looks.
        assert not (snapshot.waiting if permits else snapshot.waiters)
