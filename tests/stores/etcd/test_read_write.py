"""The read-write lock in etcd: its keys, what waits for which, and keys deleted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import MultiLock
from redisson_py._stores.contract import Busy, Granted, Kind, Renewal
from tests.stores.backends import lock_of
from tests.stores.etcd.client import (
    LEASE,
    Client,
    entries_of,
    give_back,
    keys_in_order,
    soon,
)
from tests.stores.etcd.server import EtcdServer


def watched(client: Client, name: str, owner: str) -> str:
    """Return the key that a waiter watches, without its name."""
    key: bytes = client.store._watches._by_waiter[name, owner].key
    return key.decode().removeprefix(f"{name}/")


async def test_keys_are_those_of_go(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1", kind="write")
    assert await two.ask(name, "b:1", kind="write", waits=True) == Busy(None)
    assert await two.ask(name, "b:2", kind="read", waits=True) == Busy(None)
    await one.granted(name, "a:2", kind="read", within="a:1")
    # An anchor comes with each write; what is below it reads under that.
    assert keys_in_order(server, name) == [
        "read/a:1",
        "write/a:1",
        "read/b:1",
        "write/b:1",
        "read/b:2",
        "read/a:1/a:2",
    ]
    values = server.ctl("get", f"{name}/", "--prefix", "--print-value-only").split("\n")
    assert {"reads under a:1", "reads under b:1", "a:1", "a:2", "b:1", "b:2"} == {*values} - {""}
    await give_back(two, name, "b:1", "b:2")
    await give_back(one, name, "a:1", "a:2")
    assert keys_in_order(server, name) == []


async def test_a_waiter_watches_the_one_that_it_waits_for(
    one: Client, two: Client, name: str
) -> None:
    for owner in ("b:1", "b:2"):
        await two.granted(name, owner, kind="read")
    waiters: list[tuple[str, Kind, str]] = [
        ("a:1", "write", "read/b:2"),
        ("a:2", "read", "write/a:1"),
        ("a:3", "write", "read/a:2"),
        # The anchor, which may stay longer than the write.
        ("a:4", "write", "read/a:3"),
        ("a:5", "read", "write/a:4"),
    ]
    for owner, kind, key in waiters:
        assert await one.ask(name, owner, kind=kind, waits=True) == Busy(None)
        assert watched(one, name, owner) == key
    await two.give_back(name, "b:2")
    await one.bell.heard(name)
    assert await one.ask(name, "a:1", kind="write", waits=True) == Busy(None)
    assert watched(one, name, "a:1") == "read/b:1"
    # A waiting writer leaves: the reader behind it waits for nobody any more.
    await one.give_back(name, "a:1")
    await one.bell.heard(name)
    await one.granted(name, "a:2", kind="read", waits=True)
    await give_back(two, name, "b:1")
    await give_back(one, name, "a:2", "a:3", "a:4", "a:5")


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_an_ask_that_does_not_wait_leaves_nothing(
    server: EtcdServer, one: Client, two: Client, name: str, kind: Kind
) -> None:
    await two.granted(name, "b:1", kind="write")
    before = keys_in_order(server, name)
    assert await one.ask(name, "a:1", kind=kind) == Busy(None)
    # Only names inside it have keys there now, and one comes meanwhile.
    await two.give_back(name, "b:1")
    await two.granted(f"{name}/{'write' if kind == 'read' else 'read'}/inside", "b:2")
    await two.granted(name, "b:3", kind="write")
    assert await one.ask(name, "a:2", kind=kind) == Busy(None)
    await two.give_back(f"{name}/{'write' if kind == 'read' else 'read'}/inside", "b:2")
    assert [each.replace("b:3", "b:1") for each in keys_in_order(server, name)] == before


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_names_inside_it_are_not_waited_for(
    server: EtcdServer, one: Client, two: Client, name: str, kind: Kind
) -> None:
    """Neither are a lock of the same name, or one that Go would wait for."""
    for inside in (name, f"{name}/read/x", f"{name}/write/x", f"{name}/writes"):
        await two.granted(inside, f"b:{inside}")
        await two.granted(inside, f"c:{inside}", kind="write")
        await two.granted(inside, f"d:{inside}", kind="read", within=f"c:{inside}")
        if inside == name:
            await give_back(two, inside, f"c:{inside}", f"d:{inside}")
    for waits in (True, False):
        await one.granted(name, "a:1", kind=kind, waits=waits)
        state = await one.store.look(name, soon(), kind)
        holders = [*state.readers, *([] if state.holder is None else [state.holder])]
        assert ([each.owner for each in holders], state.waiters) == (["a:1"], ())
        await one.give_back(name, "a:1")


@pytest.mark.parametrize("first", ["write", "read"])
@pytest.mark.parametrize("waiting", [False, True])
async def test_an_anchor_goes_with_the_last_of_its_keys(
    server: EtcdServer, one: Client, two: Client, name: str, first: str, waiting: bool
) -> None:
    await one.granted(name, "a:1", kind="write")
    if waiting:
        assert await two.ask(name, "b:1", kind="write", waits=True) == Busy(None)
    for owner in ("a:2", "a:3"):
        await one.granted(name, owner, kind="read", within="a:1")
    owners = ["a:1", "a:2", "a:3"] if first == "write" else ["a:3", "a:1", "a:2"]
    for owner in owners:
        assert "read/a:1" in keys_in_order(server, name)
        if waiting:
            assert await two.ask(name, "b:1", kind="write", waits=True) == Busy(None)
        assert await one.give_back(name, owner) is True
    assert "read/a:1" not in keys_in_order(server, name)
    if waiting:
        await two.bell.heard(name)
        await two.granted(name, "b:1", kind="write", waits=True)
        await two.give_back(name, "b:1")
    assert keys_in_order(server, name) == []


async def test_keys_are_never_written_twice(server: EtcdServer, one: Client, name: str) -> None:
    """Go goes by the revision of the last change, and would miss what was changed."""
    held: list[tuple[str, Granted]] = []
    for owner, but in (("a:1", {"kind": "write"}), ("a:2", {"kind": "read", "within": "a:1"})):
        held.append((owner, await one.granted(name, owner, **but)))
        held.append((owner, await one.granted(name, owner, **but)))
    for owner, granted in held:
        renewals = [
            Renewal(name, owner, granted.token, lease, exact=exact)
            for lease in (0, 1, 3 * LEASE)
            for exact in (False, True)
        ]
        assert await one.renew(*renewals) == [one.session.until] * len(renewals)
    for _, (created, changed) in entries_of(server, name):
        assert created == changed
    await give_back(one, name, "a:1", "a:2")


async def test_no_read_under_a_write_that_was_freed_by_force(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1", kind="write")
    await one.granted(name, "a:2", kind="read", within="a:1")
    assert await two.ask(name, "b:1", kind="write", waits=True) == Busy(None)
    assert await two.store.force_release(name, soon(), "write") is True
    assert keys_in_order(server, name) == ["read/b:1", "write/b:1"]
    await two.granted(name, "b:1", kind="write", waits=True)
    # This client does not know yet that another writes.
    assert await one.ask(name, "a:3", kind="read", within="a:1") == Busy(None)
    assert await one.ask(name, "a:4", kind="read", within="a:1", waits=True) == Busy(None)
    assert keys_in_order(server, name) == ["read/b:1", "write/b:1", "read/a:4"]
    assert await one.give_back(name, "a:1") is False
    assert await one.give_back(name, "a:2") is False
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    await one.granted(name, "a:4", kind="read", within="a:1", waits=True)
    await one.give_back(name, "a:4")


@pytest.mark.parametrize("under", [False, True])
async def test_an_anchor_whose_write_was_deleted_by_hand(
    server: EtcdServer, one: Client, two: Client, name: str, under: bool
) -> None:
    write = await one.granted(name, "a:1", kind="write")
    if under:
        await one.granted(name, "a:2", kind="read", within="a:1")
    server.ctl("del", f"{name}/write/a:1")
    assert await one.renew(Renewal(name, "a:1", write.token, LEASE)) == [None]
    # It keeps writers out, and so is shown, until its owner has heard of it.
    state = await two.store.look(name, soon(), "write")
    assert state.holder is None
    assert [each.owner for each in state.readers] == ["a:2" if under else "a:1"]
    assert await two.ask(name, "b:1", kind="write") == Busy(None)
    assert await one.give_back(name, "a:1") is False
    if under:
        assert await one.give_back(name, "a:2") is True
    assert keys_in_order(server, name) == []


@pytest.mark.parametrize("under", [False, True])
async def test_a_forced_release_of_readers_takes_what_stands_for_them(
    server: EtcdServer, one: Client, two: Client, name: str, under: bool
) -> None:
    await one.granted(name, "a:1", kind="write")
    if under:
        await one.granted(name, "a:2", kind="read", within="a:1")
        await one.give_back(name, "a:1")
    else:
        server.ctl("del", f"{name}/write/a:1")
    assert "read/a:1" in keys_in_order(server, name)
    assert await two.store.force_release(name, soon(), "read") is True
    assert keys_in_order(server, name) == []
    assert await one.give_back(name, "a:2" if under else "a:1") is False


async def test_a_waiting_write_that_was_deleted_by_hand_queues_again(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await two.granted(name, "b:1", kind="read")
    assert await one.ask(name, "a:1", kind="write", waits=True) == Busy(None)
    server.ctl("del", f"{name}/write/a:1")
    # Its anchor is older than its new key, and not in its way.
    assert await one.ask(name, "a:1", kind="write", waits=True) == Busy(None)
    assert watched(one, name, "a:1") == "read/b:1"
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    await one.granted(name, "a:1", kind="write", waits=True)
    await one.give_back(name, "a:1")
    assert keys_in_order(server, name) == []


@pytest.mark.parametrize(
    ("kind", "beside", "inside"),
    [
        ("fenced", "read", ""),
        ("fenced", "write", ""),
        ("read", "read", ""),
        ("read", "write", ""),
        ("write", "write", ""),
        # Keys of the one are inside the other.
        ("write", "fenced", "/read"),
    ],
)
async def test_a_multi_lock_has_one_of_those_that_share_keys(
    client: Any, other: Any, name: str, kind: str, beside: str, inside: str
) -> None:
    with pytest.raises(ValueError, match="are the same lock in etcd"):
        MultiLock(lock_of(client, name, kind), lock_of(other, name + inside, beside))
    async with MultiLock(lock_of(client, name, kind), lock_of(client, f"{name}s", beside)):
        assert await lock_of(client, name, kind).owned()
