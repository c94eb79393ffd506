"""etcd refuses to give back: the key is deleted later, when it may be, or ends with its lease."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Kind
from redisson_py._stores.etcd import messages
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.etcd.client import Client, fails_to_give_back, soon
from tests.stores.etcd.server import EtcdServer, GuardedServer, environment

#: Seconds: of a client whose session must live while `etcdctl` blocks the event loop, which pays a
#: debt after a third of it; of one whose session is to end; and of one that is only held.
LEASE, SHORT, LONG = 9.0, 3.0, 60.0
QUOTA = 2**21
REFUSED = "permission denied"


@pytest.fixture
def server(guarded: GuardedServer) -> GuardedServer:
    return guarded


@pytest_asyncio.fixture
async def client(server: GuardedServer) -> AsyncIterator[Client]:
    async with Client(server.url, lease=LEASE) as started:
        yield started
        server.allow("ours/")


@pytest_asyncio.fixture
async def other(server: GuardedServer, client: Client) -> AsyncIterator[Client]:
    """A client for which the first one waits, and so renews its session."""
    async with Client(server.url, lease=LONG) as started:
        await started.granted("others/a", "b:1")
        await client.ask("others/a", "a:0", waits=True)
        yield started


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("kind", ["lock", "read", "write"])
async def test_a_refused_release_is_done_later(
    server: GuardedServer, client: Client, other: Client, unsure: bool, kind: Kind
) -> None:
    await client.granted("ours/a", "a:1", kind=kind)
    session = client.session
    server.forbid("ours/")
    with pytest.raises(BackendError, match=REFUSED) as caught:
        await client.give_back("ours/a", "a:1", unsure)
    assert not isinstance(caught.value, ConnectionLostError)
    server.allow("ours/")
    await server.until_keys("ours/")
    assert client.session is session
    await other.granted("ours/a", "b:2", kind=kind)


async def test_one_refused_release_does_not_hold_up_others(
    server: GuardedServer, client: Client, other: Client
) -> None:
    await client.granted("ours/a", "a:1")
    await client.granted("others/b", "a:2")
    server.forbid("ours/")
    with pytest.raises(BackendError, match=REFUSED):
        await client.give_back("ours/a", "a:1")
    await fails_to_give_back(client, ("others/b", "a:2"))
    session = client.session
    await server.until_keys("others/b/")
    assert client.session is session
    assert len(server.keys("ours/")) == 1


async def test_a_refused_renewal_does_not_hold_up_releases(
    server: GuardedServer, client: Client, other: Client
) -> None:
    """From 3.7 on, one key whose name may not be used any more is enough for that."""
    await client.granted("others/b", "a:2")
    await fails_to_give_back(client, ("others/b", "a:2"))
    server.forbid("redisson_py/")
    try:
        with pytest.raises(BackendError, match=REFUSED):
            await client.store._holds.tend(soon())
        assert server.keys("others/b/") == []
    finally:
        server.allow("redisson_py/")


async def test_no_session_is_renewed_for_what_is_refused(server: GuardedServer) -> None:
    async with Client(server.url, lease=SHORT) as client:
        await client.granted("ours/a", "a:1")
        server.forbid("ours/")
        try:
            with pytest.raises(BackendError, match=REFUSED):
                await client.give_back("ours/a", "a:1")
            await server.until_keys("ours/")
            # Waiters would have been told.
            assert client.bell.all
        finally:
            server.allow("ours/")


async def test_a_question_refused_after_its_put_leaves_nothing(
    server: GuardedServer, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name inside the other: so a second call finds out that nobody is before it.
    await other.granted("ours/a/inside", "b:2")
    call = client.store._link.call

    async def forbidden(method: Any, request: Any, deadline: float) -> Any:
        if method is messages.RANGE:
            server.forbid("ours/")
            monkeypatch.undo()
        return await call(method, request, deadline)

    monkeypatch.setattr(client.store._link, "call", forbidden)
    with pytest.raises(BackendError, match=REFUSED) as caught:
        await client.ask("ours/a", "a:1", waits=True)
    assert not isinstance(caught.value, ConnectionLostError)
    assert len(server.keys("ours/a/")) == 2
    session = client.session
    server.allow("ours/")
    await server.until_keys("ours/a/", 1)
    assert client.session is session


async def test_a_full_server_is_given_back_what_it_refused() -> None:
    with EtcdServer(flags=["--quota-backend-bytes", str(QUOTA)]) as server:
        async with (
            Client(server.url, lease=LONG) as other,
            Client(server.url, lease=LEASE) as client,
        ):
            await other.granted("others/a", "b:1")
            await client.ask("others/a", "a:0", waits=True)
            await client.granted("ours/a", "a:1")
            session = client.session
            # Its session is kept meanwhile.
            await asyncio.to_thread(fill, server)
            with pytest.raises(BackendError, match="database space exceeded"):
                await client.give_back("ours/a", "a:1", unsure=True)
            assert len(server.keys("ours/")) == 1
            await asyncio.to_thread(make_room, server)
            await server.until_keys("ours/")
            assert client.session is session


async def test_a_debt_outlives_the_session_with_its_own_lease(
    server: GuardedServer, client: Client
) -> None:
    await client.granted("ours/a", "a:1", lease=600, renewed=False)
    await fails_to_give_back(client, ("ours/a", "a:1"))
    await client.store._sessions.end(client.session, soon())
    await server.until_keys("ours/")


def fill(server: EtcdServer) -> None:
    """Write until the server refuses."""
    written = 0
    while (
        subprocess.run(
            server.command("put", f"filler {written}"),
            input=b"x" * (QUOTA // 8),
            capture_output=True,
            env=environment(),
            timeout=20,
        ).returncode
        == 0
    ):
        written += 1
        assert written < 20
    assert "NOSPACE" in server.ctl("alarm", "list")


def make_room(server: EtcdServer) -> None:
    """Do what the manual of etcd says about a full server."""
    server.ctl("del", "filler", "--prefix")
    (status,) = json.loads(server.ctl("endpoint", "status", "--write-out", "json"))
    server.ctl("compact", str(status["Status"]["header"]["revision"]))
    server.ctl("defrag")
    server.ctl("alarm", "disarm")
