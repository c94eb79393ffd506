"""The ends of a client: closing in every state, and whose context it works in."""

from __future__ import annotations

import asyncio
import socket
from contextvars import ContextVar
from typing import Any

import pytest

from redisson_py import ClientClosedError, ConnectionLostError
from tests.stores.backends import Backend, Client
from tests.stores.traces import SOON, Loops, nothing_left, use
from tests.support.waiting import until, until_waiting

#: Has no default, as many have that a filter of log records reads.
who: ContextVar[str] = ContextVar("who")

pytestmark = pytest.mark.usefixtures("used_before")


# Closing.


def test_closing_while_it_connects(backend: Backend, loops: Loops) -> None:
    async def program(url: str) -> None:
        client = backend.client(url)
        asking = [asyncio.create_task(client.get_lock(f"k{n}").acquire()) for n in range(3)]
        asking.append(asyncio.create_task(client.ping()))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(SOON):
            await client.aclose()
        for each in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(each, (ClientClosedError, ConnectionLostError))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left(), socket.create_server(("127.0.0.1", 0)) as silent:
        loops.run(program(backend.url_at(silent.getsockname()[1])))


def test_closing_while_the_server_is_paused(backend: Backend, loops: Loops) -> None:
    """Idle, and while it is asked."""

    async def program() -> None:
        client, idle = backend.client(), backend.client()
        await use(client)
        await use(idle)
        await client.get_lock("held").acquire()
        await backend.pause()
        try:
            asking = asyncio.create_task(client.get_lock("k").acquire())
            await until(lambda: client.statistics().waiters or client._context.pending)
            async with asyncio.timeout(SOON):
                await asyncio.gather(client.aclose(), idle.aclose(), client.aclose())
            with pytest.raises((ClientClosedError, ConnectionLostError)):
                await asking
            # kazoo's threads end when the server says something, or by their own timeouts.
            assert asyncio.all_tasks() == {asyncio.current_task()}
        finally:
            await backend.resume()
        async with backend.client() as other:
            await other.get_lock("held").force_release()

    with nothing_left():
        loops.run(program())


def test_a_close_gives_everything_back_though_others_close_as_well(
    backend: Backend, loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        client, other = backend.client(), backend.client()
        leases = [await client.get_lock(f"k{number}").acquire() for number in range(10)]
        waiter = asyncio.create_task(client.get_lock("k0").acquire())
        await until_waiting(client, 1)
        closing = [asyncio.create_task(client.aclose()) for _ in range(3)]
        await asyncio.sleep(0)
        await client.aclose()
        assert all(lease.lost for lease in leases)
        for call in (waiter, client.get_lock("k").acquire()):
            with pytest.raises(ClientClosedError):
                await call
        for lease in leases:
            assert not await other.get_lock(str(lease.name)).locked()
        await asyncio.gather(*closing)
        await other.aclose()

    with nothing_left():
        loops.run(program())
    assert "closing while still holding lock 'k0'" in caplog.text


def test_a_cancelled_close_closes(backend: Backend, loops: Loops) -> None:
    async def program() -> None:
        client = backend.client()
        for iterations in range(4):
            async with client:
                await client.get_lock("k").acquire()
                closing = asyncio.create_task(client.aclose())
                for _ in range(iterations):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.wait([closing])
            # It was released in the background.
            async with backend.client() as other, other.get_lock("k").hold(timeout=0):
                pass
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left():
        loops.run(program())


# Contexts.


def test_background_tasks_have_the_context_of_where_it_was_made(
    backend: Backend, loops: Loops
) -> None:
    seen: dict[str, set[str]] = {}

    def create(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        code = getattr(work, "cr_code", None)
        if code is not None and "redisson_py/" in code.co_filename.replace("tests/", ""):
            seen.setdefault(work.__qualname__, set()).add(who.get())
        return asyncio.Task(work, loop=loop, **options)

    async def call(client: Client, other: Client) -> None:
        who.set("caller")
        lease = await other.get_lock("k").acquire()
        waiter = asyncio.ensure_future(wait(client))
        await until(lambda: client.statistics().waiters == 1)
        await asyncio.sleep(0.1)
        await lease.release()
        await waiter

    async def wait(client: Client) -> None:
        await (await client.get_lock("k").acquire()).release()

    async def program() -> None:
        who.set("maker")
        client, other = backend.client(), backend.client()
        asyncio.get_running_loop().set_task_factory(create)
        await asyncio.create_task(call(client, other))
        await client.aclose()
        await other.aclose()

    loops.run(program())
    ours = {name: each for name, each in seen.items() if "test_" not in name}
    assert ours
    assert all(each == {"maker"} for each in ours.values()), ours
