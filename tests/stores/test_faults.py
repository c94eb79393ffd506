"""What goes wrong in a store, and on the way to it: over every store, through its clients."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from redisson_py import (
    ConnectionLostError,
    Lease,
    LeaseLostError,
    NotHeldError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py.testing import FaultProxy
from tests.stores import workers
from tests.stores.backends import BACKENDS, LEASE, Backend, DatabaseBackend, lock_of
from tests.stores.conftest import NewClient
from tests.stores.traces import SOON
from tests.stores.workers import WorkerError
from tests.support.any_client import Client
from tests.support.waiting import listens, set_safety_poll, until, until_async

#: How often the network misbehaves in a test.
FAULTS = 30


@pytest.fixture
def store(request: pytest.FixtureRequest, backend: Backend) -> str:
    """The name of the store."""
    name: str = request.node.callspec.params["backend"]
    return name


@contextlib.asynccontextmanager
async def paused(backend: Backend) -> AsyncGenerator[None, None]:
    """Stop the server for the time of a block."""
    await backend.pause()
    try:
        yield
    finally:
        await backend.resume()


async def is_free(client: Client, name: str, kind: str) -> bool:
    return not await lock_of(client, name, kind).locked()


def sleeps(client: Client) -> bool:
    """Return whether the head of the waiters has heard "busy", and sleeps."""
    if isinstance(client, Redisson):
        return listens(client._context)
    seats = any(channel.seats for channel in client._context.bus.table.channels.values())
    return seats and not client._executor.carrier.tasks


async def body_of(client: Client, held: list[Lease], name: str = "k") -> float:
    """Hold a lock until it is lost; return when the body was told."""
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock(name) as lease:
            held.append(lease)
            try:
                await asyncio.sleep(6 * SOON)
            finally:
                reported = time.monotonic()
                assert lease.lost
                assert lease.remaining == 0
    assert caught.value.reason in ("expired", "taken")
    return reported


# Lost answers.


async def misbehave(proxy: FaultProxy, done: Callable[[], int]) -> None:
    """Lose answers, requests and connections; between two faults some work is done.

    What lost bytes is cut before anything goes on, as TCP would.
    """
    chance = random.Random(18)
    for _ in range(FAULTS):
        before, more = done(), chance.randrange(1, 16)
        await until(lambda: done() >= before + more)  # noqa: B023
        await asyncio.sleep(chance.uniform(0.0, 0.01))
        received, sent = proxy.down.bytes_in, proxy.up.bytes_out
        match chance.choice(("answer", "request", "all")):
            case "answer":
                # The server carries out what comes, and its answer is lost.
                proxy.black_hole("down")
                lost = proxy.wait_until(lambda each: each.down.bytes_in > received)  # noqa: B023
            case "request":
                # Cut right after a request was passed on.
                lost = proxy.wait_until(lambda each: each.up.bytes_out > sent)  # noqa: B023
            case _:
                proxy.black_hole()
                lost = asyncio.sleep(chance.uniform(0.01, 0.1))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lost, 0.1)
        proxy.cut()
        proxy.pass_through()


class Ledger:
    """What tasks of several clients did under one name.

    Attributes:
        grants: How often it was acquired.
        released: How often it was given back, and that was answered.
        tokens: The fencing tokens, in the order of the grants.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.grants = self.released = 0
        self.tokens: list[int] = []
        self._inside: Counter[str] = Counter()

    async def work(self, client: Client, kind: str, enough: Callable[[], bool], seed: int) -> None:
        """Acquire, extend and release until it is enough; lost connections may end each of them."""
        chance = random.Random(seed)
        lock = lock_of(client, self.name, kind)
        while not enough():
            try:
                lease = await lock.acquire()
            except ConnectionLostError:
                continue
            others = self._inside - Counter(read=self._inside["read"] if kind == "read" else 0)
            assert others.total() == 0, "two holders"
            self._inside[kind] += 1
            self.grants += 1
            if kind == "fenced":
                self.tokens.append(lease.token)
            with contextlib.suppress(ConnectionLostError):
                await asyncio.sleep(chance.uniform(0.0, 0.004))
                if chance.random() < 0.3:
                    await lease.extend(10 * LEASE)
            assert not lease.lost
            self._inside[kind] -= 1
            with contextlib.suppress(ConnectionLostError, ReleaseFailedError):
                await lease.release()
                self.released += 1


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        *[pytest.param(store, ["fenced"], id=store) for store in BACKENDS],
        *[
            pytest.param(store, ["read", "write"], id=f"{store}-read-write")
            for store in ("postgres", "etcd", "zookeeper")
        ],
        pytest.param("postgres", ["permit"], id="postgres-semaphore"),
        pytest.param("zookeeper", ["semaphore"], id="zookeeper-semaphore"),
    ],
    indirect=["backend"],
)
async def test_lost_answers_have_no_double_effect(
    backend: Backend, new_client: NewClient, kinds: list[str]
) -> None:
    ledgers = [Ledger("a"), Ledger("b")]
    # No lock passes from task to task in a client: each is asked for.
    options = {"lease_time": 4 * LEASE, "command_timeout": SOON, "turn": 0}
    direct = new_client(**options)
    async with backend.proxy() as proxy:
        clients = [backend.client(proxy.url, **options) for _ in range(2)]
        async with asyncio.timeout(9 * SOON):
            async with asyncio.TaskGroup() as tasks:
                network = tasks.create_task(
                    misbehave(proxy, lambda: sum(each.grants for each in ledgers))
                )
                for number, ledger in enumerate(ledgers):
                    for client, kind in itertools.product((*clients, direct), kinds):
                        for _ in range(1 if client is direct else 2):
                            work = ledger.work(client, kind, network.done, number)
                            tasks.create_task(work)
            for ledger in ledgers:
                assert ledger.tokens == sorted(set(ledger.tokens))
                for kind in kinds:
                    free = partial(is_free, direct, ledger.name, kind)
                    await until_async(free, seconds=5 * SOON)
        for client in clients:
            assert not client._watchdog.holds
            await client.aclose()
    assert sum(each.released for each in ledgers) > FAULTS


async def test_a_release_whose_answer_was_lost_is_no_loss(
    backend: Backend, new_client: NewClient
) -> None:
    options = {"lease_time": 10 * LEASE, "command_timeout": SOON}
    other = new_client(**options)
    async with backend.proxy() as proxy, backend.client(proxy.url, **options) as client:
        # Statements are prepared with the first use of a connection, which needs answers.
        await (await client.get_lock("k").acquire()).release()
        lease = await client.get_lock("k").acquire()
        proxy.black_hole("down")
        release = asyncio.create_task(lease.release())
        # Its first copy was carried out; the next one comes long after others held it too.
        for _ in range(30):
            async with asyncio.timeout(SOON):
                await (await other.get_lock("k").acquire()).release()
        assert not release.done()
        proxy.cut()
        proxy.pass_through()
        async with asyncio.timeout(SOON):
            await release
        assert client.statistics().losses == 0


# Servers that stop, and that die.


async def test_a_stopped_server_is_reported_in_time(
    backend: Backend, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Waiters hear of the outage by what else their client asks for.
    set_safety_poll(monkeypatch, 1000)
    # Both are long enough for what must succeed before, on a busy machine.
    holder, other = new_client(lease_time=2 * LEASE), new_client(command_timeout=5)
    await other.ping()
    held: list[Lease] = []
    body = asyncio.create_task(body_of(holder, held))
    await until(lambda: held)
    waiters = [asyncio.create_task(other.get_lock("k").acquire()) for _ in range(3)]
    await until(lambda: sleeps(other))
    async with paused(backend):
        assert 0 < held[0].remaining <= 2 * LEASE
        trying = asyncio.create_task(other.get_lock("l").try_acquire())
        bounded = asyncio.create_task(other.get_lock("m").acquire(timeout=1))
        async with asyncio.timeout(3 * SOON):
            # Nobody is let in: the server stands still.
            await body
            for task in (trying, bounded, *waiters):
                with pytest.raises(ConnectionLostError):
                    await task
        assert held[0].remaining == 0
        assert holder.statistics().losses == 1
    async with asyncio.timeout(3 * SOON):
        for client, name in ((other, "k"), (holder, "k"), (other, "l"), (other, "m")):
            async with client.get_lock(name):
                pass


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        *[pytest.param(store, "fenced", id=store) for store in BACKENDS],
        pytest.param("postgres", "write", id="postgres-write"),
        pytest.param("postgres", "permit", id="postgres-semaphore"),
        pytest.param("zookeeper", "write", id="zookeeper-write"),
        pytest.param("zookeeper", "semaphore", id="zookeeper-semaphore"),
    ],
    indirect=["backend"],
)
async def test_a_killed_server_comes_back_with_its_holds(
    backend: Backend, new_client: NewClient, kind: str
) -> None:
    options = {"lease_time": 20 * LEASE, "command_timeout": 2 * SOON}
    holder, other = new_client(**options), new_client(**options)
    leases = [await lock_of(holder, name, kind).acquire() for name in ("k", "l")]
    waiters = [
        asyncio.create_task(lock_of(other, name, kind).acquire()) for name in ("k", "k", "l")
    ]
    await until(lambda: other.statistics().waiters == 3)
    renewals = holder.statistics().renewals
    await backend.kill()
    late = asyncio.create_task(holder.get_lock("m").acquire())
    await backend.restart()
    async with asyncio.timeout(3 * SOON):
        await (await late).release()
        # At once: otherwise only after a third of the lease.
        await until(lambda: holder.statistics().renewals > renewals)
        for lease in leases:
            assert not lease.lost
            lock = lock_of(other, lease.name, kind)
            assert (await lock.inspect()).holders[0].owner == lease.owner
        assert not any(waiter.done() for waiter in waiters)
        for lease in leases:
            await lease.release()
        tokens = []
        for waiter in waiters:
            lease = await waiter
            tokens.append(lease.token)
            await lease.release()
    if kind == "fenced":
        assert min(tokens) > leases[0].token
        assert tokens[1] > tokens[0]
    assert holder.statistics().losses == other.statistics().losses == 0


# Holders that die, stop, or are cut off.


async def killed_holder(store: str, backend: Backend, client: Client) -> None:
    """What a killed process held is free when its lease is over."""
    with workers.ours(store, backend, session=int(LEASE)) as child:
        assert await child.acquire("killed", wait=SOON)
        waiter = asyncio.create_task(client.get_lock("killed").acquire())
        await until(lambda: client.statistics().waiters == 1)
        child.kill()
        async with asyncio.timeout(LEASE + SOON):
            await (await waiter).release()


async def stopped_holder(store: str, backend: Backend, client: Client) -> None:
    """A process that was stopped for longer than its lease is told, and disturbs nobody."""
    with workers.ours(store, backend, session=int(LEASE)) as child:
        assert await child.acquire("stopped", wait=SOON)
        child.pause()
        async with asyncio.timeout(LEASE + SOON):
            lease = await client.get_lock("stopped").acquire()
        child.resume()
        with pytest.raises(WorkerError, match=r"LeaseLostError|NotHeldError"):
            await child.release("stopped")
        await assert_undisturbed(client, lease)


async def counting_processes(store: str, backend: Backend, file: Path) -> None:
    """Two processes add lines that nothing else protects."""
    await asyncio.to_thread(file.write_text, "")
    with workers.ours(store, backend) as one, workers.ours(store, backend) as two:
        await asyncio.gather(one.crowd("c", file, 60, "one"), two.crowd("c", file, 60, "two"))
    rows = await asyncio.to_thread(file.read_text)
    assert Counter(rows.split()) == {"one": 60, "two": 60}


async def assert_undisturbed(client: Client, lease: Lease) -> None:
    """Fail unless a client still has its hold, and release it."""
    (holder,) = (await client.get_lock(str(lease.name)).inspect()).holders
    assert holder.owner == lease.owner
    await lease.extend(10 * LEASE)
    await lease.release()


async def cut_off_holder(number: int, backend: Backend, next_one: Client) -> None:
    """A client that is cut off is told before another is let in, and disturbs nobody."""
    name = f"cut off {number}"
    held: list[Lease] = []
    async with (
        backend.proxy() as proxy,
        backend.client(proxy.url, lease_time=LEASE) as client,
    ):
        body = asyncio.create_task(body_of(client, held, name))
        await until(lambda: held)
        taking = asyncio.create_task(next_one.get_lock(name).acquire())
        await until(lambda: next_one.statistics().waiters == 1)
        # Each at another moment between two renewals; half of them are heard, and hear nothing.
        await asyncio.sleep(number * LEASE / 12)
        proxy.black_hole("both" if number % 2 else "down")
        async with asyncio.timeout(3 * SOON):
            lease = await taking
        taken = time.monotonic()
        assert held[0].lost, "another was let in before the holder was told"
        reported = await body
        assert reported < taken
        proxy.cut()
        proxy.pass_through()
        await client.ping()
    await assert_undisturbed(next_one, lease)


async def test_holders_that_die_stop_or_are_cut_off(
    backend: Backend, store: str, new_client: NewClient, tmp_path: Path
) -> None:
    # Together, as each waits for a lease to end.
    async with asyncio.TaskGroup() as scenes:
        scenes.create_task(killed_holder(store, backend, new_client()))
        scenes.create_task(stopped_holder(store, backend, new_client()))
        scenes.create_task(counting_processes(store, backend, tmp_path / "lines"))
        for number in range(4):
            scenes.create_task(cut_off_holder(number, backend, new_client()))


# Losses by the store.


async def take_away(backend: Backend, name: str) -> None:
    """Delete what a store keeps of a lock, with the tools of its administrators."""
    kind = type(backend).__name__.removesuffix("Backend")
    if kind == "Redis":
        async with backend.client() as client:
            await client.get_lock(name).force_release()
    elif isinstance(backend, DatabaseBackend):
        await backend.sql(f"DELETE FROM redisson_py_locks WHERE name = '{name}'")
    elif kind == "Etcd":
        await asyncio.to_thread(backend.server.ctl, "del", "--prefix", f"{name}/")
    else:
        with kazoo_of(backend) as link:
            await asyncio.to_thread(link.delete, f"/redisson_py/{name}", recursive=True)


async def end_session(backend: Backend, client: Client) -> None:
    """Have the server end the session of a client, where it has one."""
    store: Any = client._store  # type: ignore[union-attr]
    if type(backend).__name__ == "EtcdBackend":
        number = store._sessions.current.number
        await asyncio.to_thread(backend.server.ctl, "lease", "revoke", f"{number:x}")
        return
    session = store._ensemble._session._client.client_id
    # The session moves to this connection, and ends with it.
    with kazoo_of(backend, client_id=session, timeout=LEASE) as link:
        assert link.client_id[0] == session[0]


@contextlib.contextmanager
def kazoo_of(backend: Backend, **options: Any) -> Iterator[Any]:
    from kazoo.client import KazooClient

    link = KazooClient(backend.url.removeprefix("zookeeper://"), **options)
    link.start()
    try:
        yield link
    finally:
        link.stop()
        link.close()


async def loses_it(client: Client, other: Client, lose: Callable[[], Awaitable[None]]) -> None:
    """Fail unless a client is told that its hold was taken, and disturbs no other one then."""
    lease = await client.get_fenced_lock("k").acquire()
    again = await client.get_fenced_lock("k").acquire()
    await lose()
    async with asyncio.timeout(SOON):
        await lease.wait_lost()
        later = await other.get_fenced_lock("k").acquire()
    assert later.token > lease.token
    with pytest.raises(LeaseLostError) as caught:
        lease.check()
    assert caught.value.reason == "taken"
    for late in (again, lease):
        with pytest.raises((LeaseLostError, NotHeldError)):
            await late.release()
    await until_async(lambda: gone(client))
    assert (await client.get_lock("k").inspect()).holders[0].owner == later.owner
    await later.extend(10 * LEASE)
    await later.release()


async def gone(client: Client) -> bool:
    """Return whether nothing is left to give back."""
    return isinstance(client, Redisson) or not client._executor.carrier.queues


async def test_what_is_deleted_is_reported(backend: Backend, client: Client, other: Client) -> None:
    await loses_it(client, other, lambda: take_away(backend, "k"))


@pytest.mark.parametrize("backend", ["etcd", "zookeeper"], indirect=True)
async def test_an_ended_session_is_reported(
    backend: Backend, client: Client, other: Client
) -> None:
    await loses_it(client, other, lambda: end_session(backend, client))
