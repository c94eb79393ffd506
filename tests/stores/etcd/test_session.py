"""What becomes of a session of etcd: moved holds, other event loops, and a driver that fails."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from redisson_py._stores.contract import Busy, Renewal
from redisson_py._stores.etcd import messages
from redisson_py._time import now
from tests.stores.etcd.client import Client, fails_to_give_back, soon
from tests.stores.etcd.server import EtcdServer
from tests.stores.etcd.test_traps import moves
from tests.support.waiting import until

LEASE = 3.0


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("first", [True, False])
async def test_a_hold_goes_while_it_is_moved(
    server: EtcdServer, one: Client, monkeypatch: pytest.MonkeyPatch, before: bool, first: bool
) -> None:
    """It is given back, as after a renewal that the engine gave up."""
    granted = await one.granted("a", "a:1", lease=60, renewed=first)
    call = one.store._link.call

    async def interrupted(method: Any, request: Any, deadline: float) -> Any:
        if not moves(request):
            return await call(method, request, deadline)
        monkeypatch.undo()
        answer = None if before else await call(method, request, deadline)
        assert await one.give_back("a", "a:1") is True
        return answer or await call(method, request, deadline)

    monkeypatch.setattr(one.store._link, "call", interrupted)
    renewal = Renewal("a", "a:1", granted.token, 120, exact=True)
    assert await one.renew(renewal) == [None]
    assert not one.store._holds.may_have(("a", "a:1"))
    assert server.keys("a/") == []


async def test_a_session_ends_while_a_hold_is_moved_out_of_it(
    server: EtcdServer, one: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted("x", "a:0")
    session = one.session
    call = one.store._link.call

    async def interrupted(method: Any, request: Any, deadline: float) -> Any:
        if moves(request):
            monkeypatch.undo()
            server.ctl("lease", "revoke", f"{session.number:x}")
        return await call(method, request, deadline)

    monkeypatch.setattr(one.store._link, "call", interrupted)
    await one.granted("a", "a:1", lease=60, renewed=False)
    (key,) = server.keys("a/")
    assert key == f"a/{one.session.number:x}"
    assert one.session is not session
    assert await one.give_back("a", "a:1") is True
    assert server.keys("a/") == []


async def test_a_driver_that_fails_does_not_end_the_care_of_a_session(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server.url, lease=60) as other, Client(server.url, lease=LEASE) as client:
        await other.granted("care", "b:1")
        await client.ask("care", "a:1", waits=True)
        ask, failed = client.store._link._ask, asyncio.Event()

        async def fail(connection: Any, method: Any, request: Any, end: float) -> Any:
            if method is not messages.LEASE_RENEW or failed.is_set():
                return await ask(connection, method, request, end)
            failed.set()
            raise RuntimeError("a defect")

        monkeypatch.setattr(client.store._link, "_ask", fail)
        await asyncio.wait_for(failed.wait(), LEASE)
        before = client.session.until
        await until(lambda: client.session.until > before)
        (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
        assert "etcd" in record.message


@pytest.mark.parametrize("engine_first", [True, False])
@pytest.mark.parametrize("renewed", [True, False])
async def test_a_debt_is_paid_while_the_engine_asks_again(
    one: Client, monkeypatch: pytest.MonkeyPatch, renewed: bool, engine_first: bool
) -> None:
    """The answer is that of the first of the two, and nothing is remembered for nobody."""
    await one.granted("twice", "a:1", renewed=renewed)
    holds = one.store._holds
    await fails_to_give_back(one, ("twice", "a:1"))
    delete, deleted, goes_on = holds._queue.delete, asyncio.Event(), asyncio.Event()

    async def delete_late(*arguments: Any) -> Any:
        answer = await delete(*arguments)
        if not deleted.is_set():
            deleted.set()
            await goes_on.wait()
        return answer

    monkeypatch.setattr(holds._queue, "delete", delete_late)
    engine, store = one.give_back("twice", "a:1"), holds.tend(soon())
    ours, theirs = (engine, store) if engine_first else (store, engine)
    async with asyncio.timeout(30):
        first = asyncio.create_task(ours)
        await deleted.wait()
        second = await theirs
        goes_on.set()
        answers = await first, second
    assert answers == ((True, None) if engine_first else (None, True))
    assert (holds._owed, holds._given, holds._own) == ({}, {}, {})


async def test_what_nobody_asks_for_again_is_not_kept_for_ever(
    one: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gives up when the lease is over; the session goes on with other holds."""
    monkeypatch.setattr("redisson_py._stores.remembered.MOST", 2)
    waiters = [(f"left {number}", f"a:{number}") for number in range(5)]
    for name, owner in waiters:
        await one.granted(name, owner)
    await fails_to_give_back(one, *waiters)
    holds = one.store._holds
    await holds.tend(soon())
    assert holds._given == dict.fromkeys(waiters[-2:], True)
    assert await one.give_back(*waiters[-1]) is True


async def test_undos_are_not_noted_for_as_long_as_a_client_lives(
    server: EtcdServer, one: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost answer leaves a note in etcd: over months of a busy client these would be many."""
    await one.granted("held", "a:0")
    session = one.session
    for number in range(1, 4):
        await one.give_back("noted", f"a:{number}", unsure=True)
    await one.store._holds.tend(soon())
    assert len(server.keys("redisson_py/")) == 3
    monkeypatch.setattr("redisson_py._stores.etcd.holds._NOTED_SECONDS", 0.0)
    await one.store._holds.tend(soon())
    assert server.keys("redisson_py/") == []
    assert one.session is session


@pytest.mark.parametrize("left", [0.3, 0.6, 0.66])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_new_hold_begins_with_two_thirds_of_its_lease_at_least(
    server: EtcdServer, waits: bool, left: float
) -> None:
    """What is left of a session that nobody has renewed for a while."""
    lease, name = 60, f"fresh {left} {waits}"
    async with Client(server.url, lease) as client, Client(server.url, lease) as other:
        await client.granted(f"{name} before", "a:1")
        if waits:
            await other.granted(name, "b:1")
            assert await client.ask(name, "a:2", waits=True) == Busy(None)
            await other.give_back(name, "b:1")
        client.session.until = now() + left * lease
        asked = now()
        answer = await client.granted(name, "a:2", waits=waits)
        assert answer.until >= asked + 2 / 3 * lease
