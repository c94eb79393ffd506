"""etcd with a small `--max-txn-ops`: everything works, or an acquire says what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Busy, Granted, Kind, Renewal
from redisson_py._stores.etcd import messages
from redisson_py.errors import BackendError
from redisson_py.etcd import Etcd
from tests.stores.etcd.client import LEASE, Client, soon, wish
from tests.stores.etcd.server import EtcdServer

KINDS: Final[tuple[Kind, ...]] = ("lock", "read", "write", "election")
#: More than one batch of the watchdog.
MANY: Final = 120


@contextlib.contextmanager
def taking(operations: int) -> Iterator[EtcdServer]:
    with EtcdServer(flags=["--max-txn-ops", str(operations)]) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with taking(messages.MOST_OPERATIONS) as started:
        yield started


@pytest.fixture(scope="module", params=[1, 3, messages.MOST_OPERATIONS - 1])
def small(request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    with taking(request.param) as started:
        yield started


@pytest_asyncio.fixture
async def other(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


def asked(name: str, owner: str, kind: Kind, **but: Any) -> Any:
    proposal = b"value" if kind == "election" else None
    return wish(name, owner, kind=kind, proposal=proposal, **but)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_works(
    one: Client, other: Client, server: EtcdServer, kind: Kind, unsure: bool, waits: bool
) -> None:
    name = f"{kind} {unsure} {waits}"
    wanted: Kind = "write" if kind == "read" else kind
    granted = await one.store.ask(asked(name, "a:1", kind), soon())
    assert isinstance(granted, Granted)
    if waits:
        assert isinstance(
            await other.store.ask(asked(name, "b:1", wanted, waits=True), soon()), Busy
        )
    assert await one.renew(Renewal(name, "a:1", granted.token, LEASE)) != [None]
    assert (await other.store.look(name, soon(), kind)).keys
    assert await one.give_back(name, "a:1", unsure) is True
    if waits:
        await other.bell.heard(name)
        assert isinstance(
            await other.store.ask(asked(name, "b:1", wanted, waits=True), soon()), Granted
        )
        assert await other.give_back(name, "b:1", unsure) is True
    assert server.keys(f"{name}/") == []


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("first", ["write", "read"])
async def test_a_read_under_a_write_works(
    one: Client, server: EtcdServer, unsure: bool, first: str
) -> None:
    name = f"under {unsure} {first}"
    assert isinstance(await one.store.ask(asked(name, "a:1", "write"), soon()), Granted)
    assert isinstance(
        await one.store.ask(asked(name, "a:2", "read", within="a:1"), soon()), Granted
    )
    owners = ("a:1", "a:2") if first == "write" else ("a:2", "a:1")
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
    requests = 0
    call = one.store._link.call

    async def count(*arguments: Any) -> Any:
        nonlocal requests
        requests += arguments[0] is messages.TXN
        return await call(*arguments)

    monkeypatch.setattr(one.store._link, "call", count)
    assert None not in await one.renew(*batch)
    # It knows by now how many the server takes.
    assert requests == -(-MANY // messages.MOST_OPERATIONS)


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
