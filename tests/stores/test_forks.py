"""Processes that fork while another of their threads uses a store's client for the first time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.support import fork_beside_first_use

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

_forks.LONGEST_CONNECT = 40.0
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


@pytest.fixture(params=MODULES)
def store(request: pytest.FixtureRequest) -> str:
    """The name of one store after the other."""
    return str(request.param)


@pytest.fixture
def its_backend(store: str, running_backend: Running) -> Backend:
    """Its server."""
    return running_backend(store)


def test_a_child_that_was_forked_during_any_import_makes_a_client_and_locks(
    store: str, its_backend: Backend
) -> None:
    children = fork_beside_first_use.children(*MODULES[store], its_backend.url, FORKS)
    assert len(children) == FORKS
    # gRPC may have been used before the fork: that is refused.
    ends = {"done"} if its_backend.forks else {"done", "BackendError"}
    assert {name: end for name, end in children.items() if end not in ends} == {}


def test_a_client_that_is_made_has_all_that_its_use_imports(
    store: str, its_backend: Backend
) -> None:
    url = its_backend.url.replace("127.0.0.1", "localhost")
    command = [sys.executable, "-c", IMPORTS, *MODULES[store], url]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert ended.stdout.split() == []


@pytest.mark.parametrize("server", WITH_TLS)
def test_a_fork_waits_while_the_first_connection_with_tls_is_opened(server: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FIRST_TLS, *WITH_TLS[server]]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert ended.stdout.split() == ["answered"]
