"""An election in etcd: its leader says something. tests/contract says that it is a lock."""

from __future__ import annotations

import asyncio
import contextlib
import json
from base64 import b64decode
from typing import Any
from unittest.mock import Mock

import pytest

from redisson_py import (
    AcquireTimeoutError,
    BackendError,
    LeaseLostError,
    NotHeldError,
)
from redisson_py._stores.etcd import messages
from redisson_py.etcd import Election, Leader, Leadership
from tests.stores.backends import CLIENT_LEASE
from tests.stores.election_support import leading, queued
from tests.stores.etcd.client import soon
from tests.stores.etcd.server import EtcdServer
from tests.support.waiting import until_async


@pytest.mark.usefixtures("no_polls")
async def test_a_leader_and_its_value(
    server: EtcdServer, election: Election, others: Election, name: str
) -> None:
    assert await others.leader() is None
    async with election.campaign("host-1:8080") as leadership:
        assert isinstance(leadership, Leadership)
        assert await others.leader() == Leader(b"host-1:8080", leadership.token)
        (key,) = server.keys(f"{name}/")
        assert key == f"{name}/{leadership.owner}"
        assert server.ctl("get", key, "--print-value-only").rstrip("\n") == "host-1:8080"
        await leadership.proclaim("host-1:9090")
        found = await others.leader()
        assert found is not None
        assert (found.text, found.token) == ("host-1:9090", leadership.token)
        with pytest.raises(AcquireTimeoutError):
            async with others.campaign("host-2", timeout=0):
                pytest.fail("two lead")
        snapshot = await others.inspect()
        assert [each.owner for each in snapshot.holders] == [leadership.owner]
        assert snapshot.keys == (f"{name}/",)
    assert await others.leader() is None
    assert server.keys(f"{name}/") == []
    async with others.campaign(b"\xff\0") as second:
        assert second.token > leadership.token
        assert await election.leader() == Leader(b"\xff\0", second.token)
    async with others.campaign("") as third:
        assert await election.leader() == Leader(b"", third.token)


@pytest.mark.usefixtures("no_polls")
async def test_candidates_are_elected_in_the_order_in_which_they_came(
    election: Election, others: Election
) -> None:
    """Those of one client stand beside each other in etcd, each with its value."""
    led: list[bytes] = []

    async def campaign(one: Election, value: str) -> int:
        async with one.campaign(value) as leadership:
            found = await election.leader()
            assert found is not None
            led.append(found.value)
            return leadership.token

    candidates = [(election, "a1"), (others, "b1"), (election, "a2"), (others, "b2")]
    async with election.campaign("first"):
        waiting = []
        for count, candidate in enumerate(candidates, 1):
            waiting.append(asyncio.create_task(campaign(*candidate)))
            await queued(election, count)
    tokens = await asyncio.gather(*waiting)
    assert led == [b"a1", b"b1", b"a2", b"b2"]
    assert tokens == sorted(tokens)


async def test_what_is_refused(election: Election, client: Any) -> None:
    async with election.campaign("one") as leadership:
        with pytest.raises(RuntimeError, match="this task already holds"):
            async with election.campaign("two"):
                pytest.fail("it leads twice")
        for value in (17, None, bytearray(b"one")):
            with pytest.raises(TypeError, match="value must be str or bytes"):
                election.campaign(value)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="value must be str or bytes"):
                await leadership.proclaim(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_hold"):
        election.campaign("one", max_hold=0)
    for name in ("", "a\0b"):
        with pytest.raises(ValueError, match="name must"):
            client.get_election(name)
    with pytest.raises(NotHeldError, match="was already released"):
        await leadership.proclaim("too late")
    assert repr(election) == f"<Election {election.name!r}>"


async def test_names_inside_a_name_are_other_elections(client: Any, name: str) -> None:
    outer, inner = client.get_election(name), client.get_election(f"{name}/a")
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(inner.campaign("inner"))
        for number in range(11):
            await stack.enter_async_context(client.get_lock(f"{name}/{number}"))
        assert await outer.leader() is None
        async with outer.campaign("outer", timeout=0) as second:
            assert await outer.leader() == Leader(b"outer", second.token)
            assert await inner.leader() == Leader(b"inner", first.token)


async def test_a_lock_of_the_same_name_has_the_same_keys(
    client: Any, others: Election, name: str
) -> None:
    async with client.get_fenced_lock(name) as lease:
        assert await others.leader() == Leader(lease.owner.encode(), lease.token)
        with pytest.raises(AcquireTimeoutError):
            async with others.campaign("host", timeout=0):
                pytest.fail("it leads beside a holder")
    async with others.campaign("host"):
        assert not await client.get_lock(name).try_acquire()


async def test_a_value_stays_under_the_lease_of_its_key(
    server: EtcdServer, election: Election, client: Any, name: str
) -> None:
    async with election.campaign("one") as leadership:
        await leadership.extend(60)
        (key,) = server.keys(f"{name}/")

        def value_and_lease() -> tuple[str, int]:
            (found,) = json.loads(server.ctl("get", key, "--write-out", "json"))["kvs"]
            return b64decode(found["value"]).decode(), found["lease"]

        _, lease = value_and_lease()
        assert lease != client._store._sessions.current.number
        for value in ("two", "three", "three"):
            await leadership.proclaim(value)
            assert value_and_lease() == (value, lease)
        assert leadership.remaining > CLIENT_LEASE


async def test_one_that_leads_no_more_proclaims_nothing(
    server: EtcdServer, election: Election, others: Election, name: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        leadership = await election.campaign("one").__aenter__()
        await stack.enter_async_context(leading(others, "two"))
        server.ctl("del", f"{name}/{leadership.owner}")
        with pytest.raises(LeaseLostError) as caught:
            await leadership.proclaim("still one")
        assert caught.value.reason == "taken"
        assert leadership.lost
        with pytest.raises(LeaseLostError):
            await leadership.proclaim("still one")

        async def led_by_two() -> bool:
            found = await others.leader()
            return found is not None and found.text == "two"

        await until_async(led_by_two)


async def test_a_value_that_comes_late_changes_nothing(
    election: Election, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a later value of the same leadership, nor one of the next."""
    link = client._store._link
    call = link.call
    async with election.campaign("one") as leadership:
        proclaimed = Mock(side_effect=call)
        monkeypatch.setattr(link, "call", proclaimed)
        await leadership.proclaim("two")
        monkeypatch.undo()
        method, request, _ = proclaimed.call_args.args
        assert method is messages.TXN
        await leadership.proclaim("three")
        assert not (await call(method, request, soon())).reply.succeeded
        assert await election.leader() == Leader(b"three", leadership.token)
    async with election.campaign("four") as next_one:
        assert not (await call(method, request, soon())).reply.succeeded
        assert await election.leader() == Leader(b"four", next_one.token)


async def test_values_may_be_as_long_as_a_request_of_etcd(
    server: EtcdServer, election: Election, others: Election, name: str
) -> None:
    fits, too_long = b"x" * (1 << 20), b"x" * 1_700_000
    with pytest.raises(BackendError, match="too large"):
        async with election.campaign(too_long):
            pytest.fail("it leads")
    assert server.keys(f"{name}/") == []
    async with election.campaign(fits) as leadership:
        found = await others.leader()
        assert found is not None
        assert found.value == fits
        with pytest.raises(BackendError, match="too large"):
            await leadership.proclaim(too_long)
        await leadership.proclaim("short")
        assert await others.leader() == Leader(b"short", leadership.token)
    assert await others.leader() is None
