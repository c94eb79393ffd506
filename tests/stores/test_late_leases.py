"""A new lease in a database whose request is sent twice, and whose first copy arrives late."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisson_py.errors import LeaseLostError
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.stores.postgres.scene import connected
from tests.support.any_client import Client

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)

Call = tuple[Any, ...]


class Requests:
    """Records what a client sends to a database, and sends it again.

    Args:
        backend: The server.
        client: The client, which has connected.
    """

    def __init__(self, backend: Backend, client: Client) -> None:
        self._backend = backend
        self.calls: list[Call] = []
        connections = client._store._connections  # type: ignore[union-attr]
        self._is_postgres = "postgres" in backend.url
        kind = "fetch" if self._is_postgres else "run"
        setattr(connections, kind, self._recording(getattr(connections, kind)))

    def _recording(self, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def recording(*call: Any, **options: Any) -> Any:
            self.calls.append(call)
            return await send(*call, **options)

        return recording

    async def arrive(self, calls: list[Call]) -> None:
        """Have copies of requests arrive now, in their order."""
        assert calls
        for statement, arguments, *_ in calls:
            if self._is_postgres:
                async with connected(self._backend.url) as raw:
                    await raw.fetch(statement, *arguments)
            else:
                await self._backend.server.sql(statement)


async def test_a_shorter_lease_that_comes_late_undoes_no_longer_one(
    backend: Backend, client: Client, other: Client
) -> None:
    """The holder believes in the longer one, so nobody else may be let in."""
    lease = await client.get_lock("k").acquire(lease_time=60)
    requests = Requests(backend, client)
    await lease.extend(5)
    late = list(requests.calls)
    await lease.extend(60)
    await requests.arrive(late)
    remaining = await other.get_lock("k").remaining()
    assert remaining is not None
    assert remaining > 30
    await lease.release()


async def test_a_partial_release_that_comes_late_does_not_undo_an_extension(
    backend: Backend, client: Client, other: Client
) -> None:
    lock = client.get_lock("k")
    outer = await lock.acquire(lease_time=20)
    inner = await lock.acquire(lease_time=60)
    requests = Requests(backend, client)
    await inner.release()
    late = list(requests.calls)
    await outer.extend(90)
    await requests.arrive(late)
    remaining = await other.get_lock("k").remaining()
    assert remaining is not None
    assert remaining > 60
    await outer.release()


async def test_a_lease_is_set_although_another_request_came_in_between(
    backend: Backend, client: Client, other: Client
) -> None:
    """A renewal that was given up, for example."""
    lease = await client.get_lock("k").acquire(lease_time=60)
    requests = Requests(backend, client)
    await lease.extend(40)
    first, connections = list(requests.calls), client._store._connections  # type: ignore[union-attr]
    kind = "fetch" if "postgres" in backend.url else "run"
    send = getattr(connections, kind)
    renewed = False

    async def beside(*call: Any, **options: Any) -> Any:
        """Change the end of the lease behind the look at it."""
        nonlocal renewed
        answer = await send(*call, **options)
        if not renewed:
            renewed = True
            await _lengthen(backend)
        return answer

    setattr(connections, kind, beside)
    await lease.extend(20)
    assert len(requests.calls) - len(first) > len(first)
    remaining = await other.get_lock("k").remaining()
    assert remaining is not None
    assert 10 < remaining <= 20
    await lease.release()


async def test_a_lease_that_is_gone_is_not_set(
    backend: Backend, new_client: NewClient, other: Client
) -> None:
    lease = await new_client().get_lock("k").acquire(lease_time=60)
    await other.get_lock("k").force_release()
    with pytest.raises(LeaseLostError):
        await lease.extend(20)


async def _lengthen(backend: Backend) -> None:
    table = "UPDATE redisson_py_locks SET expires = expires +"
    if "postgres" in backend.url:
        async with connected(backend.url) as raw:
            await raw.execute(f"{table} interval '1 s' WHERE name = 'k'")
    else:
        await backend.server.sql(f"{table} 1000000 WHERE name = 'k'")
