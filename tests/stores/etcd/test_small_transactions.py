"""etcd with a small `--max-txn-ops`: everything works, or an acquire says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from redisson_py._stores.contract import Busy, Kind, Renewal
from redisson_py._stores.etcd import messages
from redisson_py.errors import BackendError
from redisson_py.etcd import Etcd
from tests.stores.etcd.client import LEASE, Client, counted, soon
from tests.stores.etcd.server import EtcdServer

KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "election")
#: More than one batch of the watchdog.
MANY: Final = 120


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer(flags=["--max-txn-ops", str(messages.MOST_OPERATIONS)]) as started:
        yield started


@pytest.fixture(scope="module", params=[1, 3, messages.MOST_OPERATIONS - 1])
def small(request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    with EtcdServer(flags=["--max-txn-ops", str(request.param)]) as started:
        yield started


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_works(
    one: Client, two: Client, server: EtcdServer, name: str, kind: Kind, unsure: bool, waits: bool
) -> None:
    wanted = "write" if kind == "read" else kind
    granted = await one.granted(name, "a:1", kind=kind)
    if waits:
        assert await two.ask(name, "b:1", kind=wanted, waits=True) == Busy(None)
    assert await one.renew(Renewal(name, "a:1", granted.token, LEASE)) != [None]
    assert (await two.store.look(name, soon(), kind)).keys
    assert await one.give_back(name, "a:1", unsure) is True
    if waits:
        await two.bell.heard(name)
        await two.granted(name, "b:1", kind=wanted, waits=True)
        assert await two.give_back(name, "b:1", unsure) is True
    assert server.keys(f"{name}/") == []


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("owners", [("a:1", "a:2"), ("a:2", "a:1")])
async def test_a_read_under_a_write_works(
    one: Client, server: EtcdServer, name: str, unsure: bool, owners: tuple[str, str]
) -> None:
    await one.granted(name, "a:1", kind="write")
    await one.granted(name, "a:2", kind="read", within="a:1")
    for owner in owners:
        assert await one.give_back(name, owner, unsure) is True
    assert server.keys(f"{name}/") == []


async def test_batches_are_renewed(one: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = []
    for number in range(MANY):
        granted = await one.granted(f"many {number}", f"a:{number}")
        batch.append(Renewal(f"many {number}", f"a:{number}", granted.token, LEASE))
    for _ in range(2):
        assert None not in await one.renew(*batch)
    counts = counted(one, monkeypatch)
    assert None not in await one.renew(*batch)
    # It knows by now how many the server takes.
    assert counts[messages.TXN.path] == -(-MANY // messages.MOST_OPERATIONS)


@pytest.mark.parametrize("kind", KINDS)
async def test_less_than_a_release_needs_is_refused_before_anything_is_held(
    small: EtcdServer, kind: Kind
) -> None:
    async with Etcd.from_url(small.url) as client:
        locks: dict[Kind, Any] = {
            "lock": client.get_lock("a").hold(),
            "read": client.get_read_write_lock("a").read_lock().hold(),
            "write": client.get_read_write_lock("a").write_lock().hold(),
            "election": client.get_election("a").campaign("value"),
        }
        with pytest.raises(BackendError, match=r"set --max-txn-ops of each member to at least 7"):
            async with locks[kind]:
                pytest.fail("it is held")
    assert small.keys() == []
