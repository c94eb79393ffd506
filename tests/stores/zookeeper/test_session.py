"""Until when a session is kept, and what a connection does that is dead."""

from __future__ import annotations

import threading
from contextlib import suppress
from errno import EMFILE

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState

from redisson_py._stores.contract import Kind
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.zookeeper import ensemble as ensemble_module
from redisson_py._stores.zookeeper import session as session_module
from redisson_py._stores.zookeeper.session import Session
from redisson_py._stores.zookeeper.url import read_url
from redisson_py._time import now
from redisson_py.errors import ConnectionLostError
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import CLOSE, EXISTS, ZooKeeperProxy
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    KINDS,
    give_back,
    granted,
    new_owner,
    opened,
    renewed,
    soon,
)
from tests.support.waiting import until


@pytest.fixture
async def session() -> Session:
    """A session that was connected a moment ago; the leader hears after two seconds."""
    where = read_url("zookeeper://127.0.0.1:1")
    return Session(where, 8.0, 60.0, LastFailure("a server"), lambda _: None)


def connected(session: Session, ago: float) -> float:
    """Say that it was connected so long ago; return the moment."""
    moment = now() - ago
    session._signs.append((moment, moment))
    return moment


async def test_a_new_connection_counts_at_once(session: Session) -> None:
    moment = connected(session, 1)
    assert session.kept_until(now()) == moment + 8


async def test_a_sign_of_life_counts_when_the_leader_has_heard_of_it(session: Session) -> None:
    moment = connected(session, 7)
    written = moment + 3
    session.answered(written)
    answered = session._signs[-1][1]
    assert session.kept_until(answered + 1.9) == moment + 8
    assert session.kept_until(answered + 2) == written + 8


async def test_the_latest_sign_that_was_heard_of_counts(session: Session) -> None:
    moment = connected(session, 7)
    for after in (1, 2, 3, 3.01):
        session.answered(moment + after)
    heard = session._signs[-1][1] + 2
    # The last two were as good as one.
    assert session.kept_until(heard) == moment + 3 + 8
    assert len(session._signs) == 1
    assert session.kept_until(heard + 9) == moment + 3 + 8


async def test_an_idle_session_beats(server: ZooKeeperServer) -> None:
    async with ZooKeeperProxy(server.port) as proxy, opened(proxy.url, lease=1.0) as store:
        began = now()
        while proxy.seen.get(EXISTS, 0) < 20:
            await store.ping(soon())
        assert (await granted(store, "idle", new_owner())).until > began + 1.0


async def test_a_dead_connection_is_replaced_although_it_is_written_to(
    server: ZooKeeperServer,
) -> None:
    bell = Bell()
    async with ZooKeeperProxy(server.port) as proxy, opened(proxy.url, bell) as store:
        await granted(store, "dead", "dead:1")
        proxy.deafen()
        while bell.all == 0:
            with suppress(ConnectionLostError):
                await store.ping(soon(0.05))
        assert proxy.connections == 2
        assert await give_back(store, "dead", "dead:1") is True


async def test_a_server_that_accepts_and_is_silent_is_left(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_LONGEST_ATTEMPT", 0.3)
    # kazoo alone would wait for this answer for as long as the session that it asked for.
    async with ZooKeeperProxy(server.port) as proxy, opened(proxy.url, lease=60.0) as store:
        await granted(store, "silent", "silent:1")
        proxy.black_hole(on=True)
        before = proxy.connections
        proxy.cut()
        await until(lambda: proxy.connections >= before + 3)
        proxy.black_hole(on=False)
        await store.ping(soon(30))
        assert await give_back(store, "silent", "silent:1") is True


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_session_had_is_gone_with_it(server: ZooKeeperServer, kind: Kind) -> None:
    """kazoo gives a session up that the server still has: its nodes are there for a while."""
    bell, owner, name = Bell(), new_owner(), f"given up {kind}"
    async with ZooKeeperProxy(server.port) as proxy, opened(proxy.url, bell) as store:
        hold = await granted(store, name, owner, kind)
        proxy.next(CLOSE, "hold")
        session = store._ensemble._session
        assert session is not None
        session._listen(KazooState.LOST)
        await bell.heard_all(1)
        state = await store.look(name, soon(), kind)
        holders = [state.holder, *state.readers]
        assert owner in [each.owner for each in holders if each is not None]
        assert await renewed(store, name, owner, hold) is None
        assert await give_back(store, name, owner) is False


@pytest.mark.parametrize("what", ["file", "thread"])
async def test_a_session_begins_when_there_is_a_file_and_a_thread_for_it(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    bell, misses = Bell(), iter(range(3))
    owner, name, error = {
        "file": (SequentialThreadingHandler, "create_socket_pair", OSError(EMFILE, "no file")),
        "thread": (threading.Thread, "start", RuntimeError("can't start new thread")),
    }[what]
    has_some = getattr(owner, name)

    def often_has_none(self: object) -> object:
        if next(misses, None) is not None:
            raise error
        return has_some(self)

    monkeypatch.setattr(ensemble_module, "_SESSION_PAUSE", 0.01)
    async with opened(server.url, bell) as store:
        session = store._ensemble._session
        assert session is not None
        monkeypatch.setattr(owner, name, often_has_none)
        session._listen(KazooState.LOST)
        await bell.heard_all(1)
        await granted(store, f"no {what} left", new_owner())
        assert next(misses, None) is None
        # It was closed, as the others that could not begin.
        await until(session._client._stopped.is_set)
