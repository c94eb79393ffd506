"""PostgreSQL and MySQL when replies are lost, and servers are silent, stop, or are killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy, Granted, Renewal
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.backends import DatabaseBackend
from tests.stores.databases import (
    Bell,
    granted,
    holder,
    is_free,
    new_name,
    owner,
    running,
    soon,
    wish,
)
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)


@pytest_asyncio.fixture
async def proxy(backend: DatabaseBackend) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", backend.server.port, raw=True) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def store(backend: DatabaseBackend) -> AsyncIterator[Any]:
    """A store that nothing disturbs."""
    async with running(backend.store()) as store:
        yield store


@pytest_asyncio.fixture
async def bell() -> Bell:
    return Bell()


@pytest_asyncio.fixture
async def victim(backend: DatabaseBackend, proxy: FaultProxy, bell: Bell) -> AsyncIterator[Any]:
    """A store behind the proxy, whose only connection has prepared its statements."""
    async with running(backend.store(proxy.port, connections=1), bell) as victim:
        for unsure in (False, True):
            name, who = new_name(), owner()
            hold = await granted(victim, name, who)
            await victim.renew([Renewal(name, who, hold.token, 30)], soon())
            await victim.give_back(name, who, unsure, soon())
        yield victim
        proxy.pass_through()


async def lose_reply(
    proxy: FaultProxy,
    call: Coroutine[Any, Any, Any],
    done: Callable[[], Awaitable[bool]],
    meanwhile: Callable[[], Awaitable[object]] | None = None,
) -> Any:
    """Make a call, and break the connection, with its reply, when it has been carried out."""
    proxy.black_hole("down")
    task = asyncio.create_task(call)
    await until_async(done)
    if meanwhile is not None:
        await meanwhile()
    proxy.cut()
    proxy.pass_through()
    return await task


async def is_held(store: Any, name: str, who: str) -> bool:
    return await holder(store, name) == who


async def is_refused(store: Any, name: str, who: str) -> bool:
    """Return whether an owner that gave up is not granted a free name."""
    try:
        return isinstance(await store.ask(wish(name, who), soon()), Busy)
    except BackendError as error:
        return "cannot ask again" in str(error)


Call = Callable[[Any, str, str, int, float], Awaitable[object]]
CALLS: dict[str, Call] = {
    "ask": lambda store, name, who, _, end: store.ask(wish(name, who), end),
    "give back": lambda store, name, who, _, end: store.give_back(name, who, False, end),
    "renew": lambda store, name, who, token, end: store.renew([Renewal(name, who, token, 30)], end),
    "look": lambda store, name, who, token, end: store.look(name, end),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_dead_peer_is_noticed_by_the_deadline(
    backend: DatabaseBackend, proxy: FaultProxy, bell: Bell, call: str
) -> None:
    name, who = new_name(), owner()
    async with running(backend.store(proxy.port, connections=8), bell) as store:
        hold = await granted(store, name, who)
        await asyncio.gather(*(store.ping(soon()) for _ in range(8)))
        proxy.black_hole()
        deadline = soon(1)
        with pytest.raises(ConnectionLostError) as caught:
            await CALLS[call](store, name, who, hold.token, deadline)
        assert caught.value.maybe_held
        assert now() >= deadline - 0.1
        # A firewall that forgot one connection has forgotten all: nothing is sent on another.
        with pytest.raises(ConnectionLostError) as caught:
            await CALLS[call](store, name, who, hold.token, soon(1))
        assert not caught.value.maybe_held
        proxy.pass_through()
        await granted(store, name, who)
        await until(lambda: bell.all == 1)


async def test_a_silent_connection_is_left_for_a_new_one_within_one_call(
    victim: Any, proxy: FaultProxy, bell: Bell
) -> None:
    connections = proxy.accepted
    proxy.black_hole()
    asking = asyncio.create_task(victim.ask(wish(new_name(), owner()), soon(5)))
    await until(lambda: proxy.accepted > connections)
    proxy.pass_through()
    assert isinstance(await asking, Granted)
    await until(lambda: bell.all == 1)


async def test_a_grant_whose_reply_is_lost_is_found_again(
    store: Any, victim: Any, proxy: FaultProxy, bell: Bell
) -> None:
    name, who = new_name(), owner()
    asked = victim.ask(wish(name, who), soon())
    hold = await lose_reply(proxy, asked, partial(is_held, store, name, who))
    assert isinstance(hold, Granted)
    seen = (await store.look(name, soon())).holder
    assert hold.token == seen.token
    assert hold.until <= now() + seen.remaining + 0.5
    await until(lambda: bell.all == 1)
    # The first request may still arrive: the release leaves a tombstone without being told to.
    assert await victim.give_back(name, who, False, soon())
    assert await is_refused(store, name, who)
    await granted(store, name, owner())


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("another", [False, True], ids=["alone", "another came and went"])
async def test_a_release_whose_reply_is_lost_answers_that_it_held(
    store: Any, victim: Any, proxy: FaultProxy, unsure: bool, another: bool
) -> None:
    name, who, next_one = new_name(), owner(), owner()
    await granted(victim, name, who)

    async def come_and_go() -> None:
        if another:
            await granted(store, name, next_one)
            assert await store.give_back(name, next_one, False, soon())

    released = victim.give_back(name, who, unsure, soon())
    answer = await lose_reply(proxy, released, partial(is_free, store, name), come_and_go)
    # PostgreSQL remembers the last one only: nothing tells what the first copy did.
    assert answer or (another and store.title == "PostgreSQL" and answer is None)


async def test_a_renewal_whose_reply_is_lost_is_made_again(
    store: Any, victim: Any, proxy: FaultProxy
) -> None:
    name, who = new_name(), owner()
    hold = await granted(victim, name, who, lease=10)

    async def is_renewed() -> bool:
        return bool((await store.look(name, soon())).holder.remaining > 20)

    renewal = victim.renew([Renewal(name, who, hold.token, 60)], soon())
    assert await lose_reply(proxy, renewal, is_renewed) == [pytest.approx(now() + 60, abs=15)]


async def test_a_forced_release_whose_reply_is_lost_says_that_it_held(
    store: Any, victim: Any, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, who = new_name(), owner()
    for _ in range(2):
        await granted(victim, name, who)
        assert await victim.force_release(name, soon())
    await granted(victim, name, who)
    look = victim.look

    async def look_and_go_dark(name: str, deadline: float) -> Any:
        state = await look(name, deadline)
        monkeypatch.undo()
        proxy.black_hole("down")
        return state

    monkeypatch.setattr(victim, "look", look_and_go_dark)
    forcing = asyncio.create_task(victim.force_release(name, soon()))
    await until_async(partial(is_free, store, name))
    proxy.cut()
    proxy.pass_through()
    assert await forcing


@pytest.mark.parametrize("waits", [False, True])
async def test_a_name_that_is_busy_now_may_still_be_granted_late(
    store: Any, victim: Any, proxy: FaultProxy, waits: bool
) -> None:
    """A caller that does not wait would not give back; one that waits does."""
    name, who, other = new_name(), owner(), owner()
    await granted(victim, name, other, waits=waits)
    assert await victim.give_back(name, other, False, soon())

    async def take_away() -> None:
        await store.force_release(name, soon())
        await granted(store, name, owner())

    asked = victim.ask(wish(name, who, waits=waits), soon())
    answer = lose_reply(proxy, asked, partial(is_held, store, name, who), take_away)
    if waits:
        assert isinstance(await answer, Busy)
    else:
        with pytest.raises(ConnectionLostError) as caught:
            await answer
        assert caught.value.maybe_held
    # Whoever gives back is believed that a copy may come, though it says that it is sure.
    await victim.give_back(name, who, False, soon())
    await store.force_release(name, soon())
    assert await is_refused(store, name, who)


async def test_a_stopped_server_carries_nothing_out_late(
    backend: DatabaseBackend, store: Any
) -> None:
    name, who = new_name(), owner()
    await backend.pause()
    try:
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish(name, who), soon(1))
        assert caught.value.maybe_held
    finally:
        await backend.resume()
    # The request lies in the server's socket, and is executed when the server goes on.
    await store.give_back(name, who, True, soon())
    assert await is_refused(store, name, who)
    await granted(store, name, owner())


async def test_a_cancelled_call_leaves_nothing_behind(
    backend: DatabaseBackend, victim: Any
) -> None:
    name, first, second = new_name(), owner(), owner()
    await granted(victim, name, first)
    await backend.pause()
    try:
        calls = [
            asyncio.create_task(victim.ask(wish(name, second, waits=True), soon())),
            asyncio.create_task(victim.give_back(name, owner(), False, soon())),
            asyncio.create_task(victim.ping(soon())),
        ]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    finally:
        await backend.resume()
    # No call reads the answer to one before.
    assert await holder(victim, name) == first
    assert await victim.give_back(name, first, False, soon())
    await victim.give_back(name, second, True, soon())
    await granted(victim, name, owner())


async def test_a_hold_outlives_a_killed_server(
    backend: DatabaseBackend, store: Any, bell: Bell
) -> None:
    name, who = new_name(), owner()
    async with running(backend.store(), bell) as store:
        hold = await granted(store, name, who, lease=300)
        await backend.kill()
        with pytest.raises(ConnectionLostError):
            await store.ping(soon(0.2))
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish(name, owner()), soon(0.2))
        assert not caught.value.maybe_held
        calls = [
            asyncio.create_task(store.ask(wish(new_name(), owner()), soon(60))),
            asyncio.create_task(store.renew([Renewal(name, who, hold.token, 600)], soon(60))),
        ]
        await backend.restart()
        asked, renewed = await asyncio.gather(*calls)
        assert isinstance(asked, Granted)
        assert renewed == [pytest.approx(now() + 600, abs=30)]
        await until(lambda: bell.all == 1)
        assert await store.give_back(name, who, False, soon())
        assert (await granted(store, name, owner())).token > hold.token


async def test_a_connection_that_ended_unused_is_missed(
    backend: DatabaseBackend, victim: Any, bell: Bell
) -> None:
    """The server may have been another one meanwhile, without the latest holds."""
    if victim.title == "PostgreSQL":
        await backend.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    else:
        for (number,) in await backend.sql(
            "SELECT id FROM information_schema.processlist WHERE user = 'app'"
        ):
            await backend.sql(f"KILL {number}")
    await granted(victim, new_name(), owner())
    await until(lambda: bell.all == 1)
