"""The ends of a client: closing in every state, forks, and whose context it works in."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from redisson_py import ClientClosedError, ConnectionLostError
from tests.stores.backends import Backend, Client
from tests.stores.conftest import NewClient
from tests.stores.traces import SOON, Loops, nothing_left
from tests.support import repository
from tests.support.waiting import until, until_waiting

#: Has no default, as many have that a filter of log records reads.
who: ContextVar[str] = ContextVar("who")


async def use(client: Client, name: str = "k") -> None:
    """Hold it once."""
    async with asyncio.timeout(SOON), client.get_lock(name):
        pass


@pytest.fixture(autouse=True)
def used_before(backend: Backend, loops: Loops) -> None:
    """What a driver makes once in a process is there."""

    async def once() -> None:
        client = backend.client()
        await use(client)
        await client.aclose()

    loops.run(once())


@contextmanager
def silent_server() -> Iterator[str]:
    """An address at which TCP connects, and nobody says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def url_at(backend: Backend, address: str) -> str:
    """The URL of a backend with another address."""
    scheme, _, rest = backend.url.partition("://")
    place, slash, path = rest.partition("/")
    credentials, at, _ = place.rpartition("@")
    return f"{scheme}://{credentials}{at}{address}{slash}{path}"


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

    with nothing_left(), silent_server() as address:
        loops.run(program(url_at(backend, address)))


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


def test_closing_twice_at_once(backend: Backend, loops: Loops) -> None:
    async def program() -> None:
        client, other = backend.client(), backend.client()
        for number in range(10):
            await client.get_lock(f"k{number}").acquire()
        closing = [asyncio.create_task(client.aclose()) for _ in range(3)]
        await asyncio.sleep(0)
        await client.aclose()
        assert client.statistics().held_leases == 0
        for number in range(10):
            assert not await other.get_lock(f"k{number}").locked()
        await asyncio.gather(*closing)
        await other.aclose()

    with nothing_left():
        loops.run(program())


def test_a_cancelled_close_closes(backend: Backend, loops: Loops) -> None:
    async def program() -> None:
        client = backend.client()
        for turns in range(4):
            async with client:
                await client.get_lock("k").acquire()
                closing = asyncio.create_task(client.aclose())
                for _ in range(turns):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.wait([closing])
            async with backend.client() as other:
                await other.get_lock("k").force_release()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left():
        loops.run(program())


def test_ten_clients_one_after_the_other_leave_nothing(backend: Backend, loops: Loops) -> None:
    async def program() -> None:
        tasks = asyncio.all_tasks()
        for _ in range(10):
            async with backend.client() as client:
                await use(client)
        assert asyncio.all_tasks() == tasks

    with nothing_left():
        loops.run(program())


# Forks.

_START = """
import asyncio, os, sys
from redisson_py import ClientClosedError
from tests.stores.backends import BACKENDS

client = BACKENDS[sys.argv[1]].client(None, sys.argv[2])

async def use(name="k"):
    async with asyncio.timeout(30), client.get_lock(name):
        pass

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    return child

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

#: From Python 3.12 on, any fork beside threads; here that is what is tested.
_NO_WARNING = ("-W", "ignore:This process:DeprecationWarning")


def run_program(backend: Backend, code: str) -> list[str]:
    """Run a program with a client of a module; return what it printed."""
    name = type(backend).__name__.removesuffix("Backend").lower()
    done = subprocess.run(
        [
            *(sys.executable, *_NO_WARNING, "-c", _START + textwrap.dedent(code)),
            *(name, backend.url),
        ],
        cwd=repository.ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


def test_one_that_was_not_used_yet_works_in_each_child(backend: Backend) -> None:
    """They are clients of their own: they exclude each other."""
    code = """
    import mmap
    shared = mmap.mmap(-1, 2)

    def work():
        async def count():
            for _ in range(20):
                async with asyncio.timeout(60), client.get_lock("counted"):
                    seen = shared[0]
                    await asyncio.sleep(0.001)
                    shared[0] = seen + 1
            await client.aclose()
        asyncio.run(count())

    children = [in_child(work) for _ in range(3)]
    assert [ended(each) for each in children] == [0, 0, 0]
    print(shared[0])
    asyncio.run(use())
    """
    assert run_program(backend, code) == ["60"]


def test_one_that_was_used_is_refused_in_a_child(backend: Backend) -> None:
    code = """
    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())

    def refused():
        async def attempt():
            for work in (use, client.aclose):
                try:
                    await work()
                except ClientClosedError as error:
                    print(error)
        asyncio.run(attempt())

    assert ended(in_child(refused)) == 0
    loop.run_until_complete(use())
    loop.run_until_complete(client.aclose())
    loop.close()
    """
    said = run_program(backend, code)
    assert len(said) == 2
    assert all("before a fork" in each for each in said)


def test_one_whose_event_loop_has_ended_works_in_a_child(backend: Backend) -> None:
    code = """
    asyncio.run(use())

    def work():
        asyncio.run(use())
        print(client.id)
    status = ended(in_child(work))
    asyncio.run(use())
    print(status, client.id)
    """
    in_child, in_parent = run_program(backend, code)
    status, client_id = in_parent.split()
    if backend.forks:
        assert status == "0"
        assert in_child != client_id
    else:
        # It would hang now and then, in the library of its driver.
        assert in_child.startswith("BackendError: gRPC does not work in a process that was")


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


async def test_a_closing_client_gives_everything_back(
    new_client: NewClient, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client()
    lease = await client.get_lock("k").acquire()
    waiter = asyncio.create_task(client.get_lock("k").acquire())
    await until_waiting(client, 1)
    await client.aclose()
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiter
    with pytest.raises(ClientClosedError):
        await client.get_lock("k").acquire()
    assert lease.lost
    assert "closing while still holding lock 'k'" in caplog.text
    async with asyncio.timeout(SOON):
        async with other.get_lock("k"):
            pass


async def test_a_closed_client_opens_again_with_a_new_id(new_client: NewClient) -> None:
    client = new_client()
    async with client:
        before = client.id
        async with client.get_lock("k"):
            pass
    async with client:
        assert client.id != before
        async with client.get_lock("k") as lease:
            assert lease.owner.startswith(client.id)
