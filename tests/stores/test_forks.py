"""Forks: before and after a first use of a client, and beside one in another thread."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.stores.backends import Backend
from tests.support import fork_beside_first_use, repository

#: How many forks, each during another import.
FORKS = 10

MODULES = {
    name: (f"redisson_py.{name}", kind)
    for name, kind in {
        "postgres": "Postgres",
        "mysql": "MySQL",
        "etcd": "Etcd",
        "zookeeper": "ZooKeeper",
    }.items()
}

IMPORTS = """
import asyncio, importlib, sys

module, kind, url = sys.argv[1:]
client = getattr(importlib.import_module(module), kind).from_url(url)
before = set(sys.modules)

async def use():
    async with client:
        async with client.get_lock("lock of imports"):
            await client.get_lock("lock of imports").locked()

asyncio.run(use())
print(*sorted(set(sys.modules) - before))
"""

FIRST_TLS = """
import asyncio, importlib, os, socket, sys, threading, time
from contextlib import suppress

module, kind, url = sys.argv[1:]
made = getattr(importlib.import_module(module), kind)
from redisson_py import _forks
from redisson_py.errors import BackendError

_forks.LONGEST_CONNECT_SECONDS = 40.0
connected, forks, answered = threading.Event(), threading.Event(), threading.Event()
# What is registered last is called first.
os.register_at_fork(before=forks.set)
server = socket.create_server(("127.0.0.1", 0))

def serve():
    client, _ = server.accept()
    connected.set()
    forks.wait()
    # A fork that does not wait is over before that.
    time.sleep(0.3)
    answered.set()
    client.close()
    server.close()

async def use():
    url_here = url % server.getsockname()[1]
    async with made.from_url(url_here) as client:
        await client.ping(timeout=0)

def use_first():
    with suppress(BackendError):
        asyncio.run(use())

for work in (serve, use_first):
    threading.Thread(target=work, daemon=True).start()
assert connected.wait(40)
child = os.fork()
if child == 0:
    print("answered" if answered.is_set() else "too soon", flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

#: Servers that speak TLS, or may.
WITH_TLS = {
    "redis": ("redisson_py", "Redisson", "rediss://127.0.0.1:%d"),
    "postgres": (*MODULES["postgres"], "postgresql://u@127.0.0.1:%d/d"),
    "mysql": (*MODULES["mysql"], "mysql://u@127.0.0.1:%d/d?ssl=true"),
    "zookeeper": (*MODULES["zookeeper"], "zookeepers://127.0.0.1:%d"),
}


def program_of(backend: Backend) -> tuple[str, str, str]:
    """Return the arguments of a program that makes a client."""
    return (*MODULES[type(backend).__name__.removesuffix("Backend").lower()], backend.url)


@pytest.mark.parametrize("backend", MODULES, indirect=True)
def test_a_child_that_was_forked_during_any_import_makes_a_client_and_locks(
    backend: Backend,
) -> None:
    children = fork_beside_first_use.children(*program_of(backend), FORKS)
    assert len(children) == FORKS
    # gRPC may have been used before the fork: that is refused.
    ends = {"done"} if backend.forks else {"done", "BackendError"}
    assert {name: end for name, end in children.items() if end not in ends} == {}


@pytest.mark.parametrize("backend", MODULES, indirect=True)
def test_a_client_that_is_made_has_all_that_its_use_imports(backend: Backend) -> None:
    module, kind, url = program_of(backend)
    command = [sys.executable, "-c", IMPORTS, module, kind, url.replace("127.0.0.1", "localhost")]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert ended.stdout.split() == []


@pytest.mark.parametrize("server", WITH_TLS)
def test_a_fork_waits_while_the_first_connection_with_tls_is_opened(server: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FIRST_TLS, *WITH_TLS[server]]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert ended.stdout.split() == ["answered"]


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


def run_program(backend: Backend, code: str) -> list[str]:
    """Run a program with a client of a module; return what it printed."""
    name = type(backend).__name__.removesuffix("Backend").lower()
    # From Python 3.12 on, any fork beside threads is warned of; here that is what is tested.
    options = ("-u", "-W", "ignore:This process:DeprecationWarning")
    done = subprocess.run(
        [sys.executable, *options, "-c", _START + textwrap.dedent(code), name, backend.url],
        cwd=repository.ROOT,
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
