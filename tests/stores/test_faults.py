"""What goes wrong in a store, and on the way to it: over every store, through its clients."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from redisson_py import ConnectionLostError, Lease, LeaseLostError, NotHeldError, Redisson
from tests.fixtures.measured import Measured
from tests.stores.backends import BACKENDS, LEASE, Backend
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import (
    INCREMENTS,
    SOON,
    BadNetwork,
    Ledger,
    another_process,
    end_session,
    lock_of,
    proxied,
    take_away,
)
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
        return listens(client._table, client._router)
    seats = any(channel.seats for channel in client._table.channels.values())
    return seats and not client._executor.carrier.tasks


async def body_of(client: Client, held: list[Lease], name: str = "k") -> float:
    """Hold a lock until it is lost; return when the body was told."""
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock(name) as lease:
            held.append(lease)
            try:
                await asyncio.sleep(6 * SOON)
            finally:
                told = time.monotonic()
                assert lease.lost
                assert lease.remaining == 0
    assert caught.value.reason in ("expired", "taken")
    return told


# Lost answers.


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        *[pytest.param(store, ["fenced"], id=store) for store in BACKENDS],
        *[
            pytest.param(store, ["read", "write"], id=f"{store}-read-write")
            for store in ("etcd", "zookeeper")
        ],
        pytest.param("zookeeper", ["semaphore"], id="zookeeper-semaphore"),
    ],
    indirect=["backend"],
)
async def test_lost_answers_have_no_double_effect(
    backend: Backend, new_client: NewClient, measured: Measured, kinds: list[str]
) -> None:
    ledgers = [Ledger("a"), Ledger("b")]
    # No lock passes from task to task in a client: each is asked for.
    options = {"lease_time": 4 * LEASE, "command_timeout": SOON, "turn": 0}
    direct = new_client(**options)
    async with proxied(backend) as proxy:
        clients = [backend.client(proxy.url, **options) for _ in range(2)]
        network = BadNetwork(proxy, 18, lambda: sum(each.grants for each in ledgers))

        def enough() -> bool:
            return network.faults.total() >= FAULTS

        async with asyncio.timeout(9 * SOON):
            async with asyncio.TaskGroup() as tasks:
                disturbing = asyncio.create_task(network.run())
                async with asyncio.TaskGroup() as working:
                    for number, ledger in enumerate(ledgers):
                        for client, kind in itertools.product((*clients, direct), kinds):
                            for _ in range(1 if client is direct else 2):
                                work = ledger.work(client, kind, enough, number)
                                working.create_task(work)
                disturbing.cancel()
                tasks.create_task(asyncio.wait([disturbing]))
            for ledger in ledgers:
                ledger.check()
                for kind in kinds:
                    free = partial(is_free, direct, ledger.name, kind)
                    await until_async(free, seconds=5 * SOON)
        for client in clients:
            assert not client._watchdog.holds
            await client.aclose()
    done = ledgers[0].done + ledgers[1].done
    assert done["released"] > FAULTS
    measured("faults", dict(network.faults))
    measured("done", dict(done))


async def test_a_release_whose_answer_was_lost_is_no_loss(
    backend: Backend, new_client: NewClient
) -> None:
    options = {"lease_time": 10 * LEASE, "command_timeout": SOON}
    other = new_client(**options)
    async with proxied(backend) as proxy, backend.client(proxy.url, **options) as client:
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


async def test_a_stopped_server_is_told_in_time(
    backend: Backend,
    new_client: NewClient,
    measured: Measured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Waiters hear of the outage by what else their client asks for.
    set_safety_poll(monkeypatch, 1000)
    # Both are long enough for what must succeed before, on a busy machine.
    lease_time, command_timeout = 2 * LEASE, 5
    holder = new_client(lease_time=lease_time)
    other = new_client(command_timeout=command_timeout)
    await other.ping()
    held: list[Lease] = []
    body = asyncio.create_task(body_of(holder, held))
    await until(lambda: held)
    waiters = [asyncio.create_task(other.get_lock("k").acquire()) for _ in range(3)]
    await until(lambda: sleeps(other))
    failed: list[float] = []
    async with paused(backend):
        began = time.monotonic()
        for waiter in waiters:
            waiter.add_done_callback(lambda _: failed.append(time.monotonic()))
        lefts = [held[0].remaining]
        trying = asyncio.create_task(other.get_lock("l").try_acquire())
        bounded = asyncio.create_task(other.get_lock("m").acquire(timeout=1))
        async with asyncio.timeout(3 * SOON):
            # Nobody is let in: the server stands still.
            told = await body
            lefts.append(held[0].remaining)
            for task in (trying, bounded, *waiters):
                with pytest.raises(ConnectionLostError):
                    await task
        assert 0 == lefts[1] < lefts[0] <= lease_time
        measured("told after", f"{told - began:.2f} s of {lease_time} s")
        await until(lambda: len(failed) == len(waiters))
        after = sorted(f"{each - began:.2f}" for each in failed)
        text = f"{', '.join(after)} s, with a command_timeout of {command_timeout} s"
        measured("waiters failed after", text)
        assert holder.statistics().losses == 1
    async with asyncio.timeout(3 * SOON):
        for client, name in ((other, "k"), (holder, "k"), (other, "l"), (other, "m")):
            async with client.get_lock(name):
                pass


async def test_a_short_stop_loses_nothing(new_client: NewClient, backend: Backend) -> None:
    holder, other = new_client(lease_time=3 * LEASE), new_client()
    async with holder.get_lock("k") as lease:
        waiter = asyncio.create_task(other.get_lock("k").acquire())
        await until(lambda: other.statistics().waiters == 1)
        async with paused(backend):
            late = asyncio.create_task(other.get_lock("l").acquire())
            await asyncio.sleep(1)
            assert not late.done()
        await (await late).release()
        renewals = holder.statistics().renewals
        await until(lambda: holder.statistics().renewals > renewals)
        assert not lease.lost
        assert not waiter.done()
    async with asyncio.timeout(SOON):
        await (await waiter).release()
    assert holder.statistics().losses == 0


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        *[pytest.param(store, "fenced", id=store) for store in BACKENDS],
        pytest.param("zookeeper", "write", id="zookeeper-write"),
        pytest.param("zookeeper", "semaphore", id="zookeeper-semaphore"),
    ],
    indirect=["backend"],
)
async def test_a_killed_server_comes_back_with_its_holds(
    backend: Backend, new_client: NewClient, kind: str
) -> None:
    options = {"lease_time": 20 * LEASE, "command_timeout": 3 * SOON}
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
    async with another_process(store, backend.url, "hold", "killed", LEASE) as child:
        assert await child.line() == "held"
        waiter = asyncio.create_task(client.get_lock("killed").acquire())
        await until(lambda: client.statistics().waiters == 1)
        child.process.kill()
        async with asyncio.timeout(LEASE + SOON):
            await (await waiter).release()


async def stopped_holder(store: str, backend: Backend, client: Client) -> None:
    """A process that was stopped for longer than its lease is told, and disturbs nobody."""
    async with another_process(store, backend.url, "hold", "stopped", LEASE) as child:
        assert await child.line() == "held"
        child.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(LEASE + SOON):
            lease = await client.get_lock("stopped").acquire()
        child.process.send_signal(signal.SIGCONT)
        assert await child.line() in ("lost: expired", "lost: taken")
        assert await child.line() in ("LeaseLostError", "NotHeldError")
        await child.process.wait()
        # It has given back whatever it had, and closed.
        (holder,) = (await client.get_lock("stopped").inspect()).holders
        assert holder.owner == lease.owner
        await lease.extend(10 * LEASE)
        await lease.release()


async def cut_off_holder(
    number: int, backend: Backend, next_one: Client, margins: list[float]
) -> None:
    """A client that is cut off is told before another is let in, and disturbs nobody."""
    name = f"cut off {number}"
    held: list[Lease] = []
    async with (
        proxied(backend) as proxy,
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
        told = await body
        assert told < taken
        margins.append(round(taken - told, 2))
        proxy.cut()
        proxy.pass_through()
        await client.ping()
    (holder,) = (await next_one.get_lock(name).inspect()).holders
    assert holder.owner == lease.owner
    await lease.extend(10 * LEASE)
    await lease.release()


async def counting_processes(store: str, backend: Backend, file: Path) -> None:
    """Two processes make increments that nothing else protects."""
    await asyncio.to_thread(file.write_text, "0")
    async with (
        another_process(store, backend.url, "count", "count", file) as one,
        another_process(store, backend.url, "count", "count", file) as two,
    ):
        assert await one.line() == await two.line() == "counted"
    assert await asyncio.to_thread(file.read_text) == str(2 * INCREMENTS)


async def test_holders_that_die_stop_or_are_cut_off(
    backend: Backend, store: str, new_client: NewClient, tmp_path: Path, measured: Measured
) -> None:
    margins: list[float] = []
    # Together, as each waits for a lease to end.
    async with asyncio.TaskGroup() as scenes:
        scenes.create_task(killed_holder(store, backend, new_client()))
        scenes.create_task(stopped_holder(store, backend, new_client()))
        scenes.create_task(counting_processes(store, backend, tmp_path / "count"))
        for number in range(4):
            scenes.create_task(cut_off_holder(number, backend, new_client(), margins))
    measured("told before another held it, s", margins)


# Losses by the store.


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
    return isinstance(client, Redisson) or not client._executor.carrier.lines


async def test_what_is_deleted_is_told(backend: Backend, client: Client, other: Client) -> None:
    await loses_it(client, other, lambda: take_away(backend, "k"))


@pytest.mark.parametrize("backend", ["etcd", "zookeeper"], indirect=True)
async def test_an_ended_session_is_told(backend: Backend, client: Client, other: Client) -> None:
    await loses_it(client, other, lambda: end_session(backend, client))
