"""As `test_catalogue`: locks made of locks, on one server and on several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    Lease,
    LeaseLostError,
    QuorumError,
    Redisson,
)
from redisson_py.composite.red_lock import RedLock
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.streams import answered
from tests.support.waiting import until, until_async

LEASE = 30.0
SHORT_LEASE = 3.0

MakeRedLock = Callable[..., RedLock]


@pytest_asyncio.fixture
async def servers(server_factory: ServerFactory) -> list[EmbeddedServer]:
    """Three servers that know nothing of each other."""
    return list(await asyncio.gather(*[server_factory() for _ in range(3)]))


@pytest.fixture
def make(clients: ClientFactory, servers: list[EmbeddedServer]) -> MakeRedLock:
    """Make the RedLock `k` on these servers, with a client of its own for each."""

    def make_red_lock(**options: float) -> RedLock:
        made = [clients(server.url, **options) for server in servers]
        return made[0].get_red_lock(*[client.get_lock("k") for client in made])

    return make_red_lock


async def is_free(server: EmbeddedServer) -> bool:
    async with Redis.from_url(server.url) as redis:
        return not await redis.exists("k")


async def all_free(servers: list[EmbeddedServer]) -> bool:
    return all([await is_free(server) for server in servers])


async def held_everywhere(lock: RedLock, servers: list[EmbeddedServer]) -> Lease:
    """Acquire it on all servers: on a busy machine one may answer too late to count."""
    for _ in range(10):
        lease = await lock.acquire(lease_time=LEASE)
        with suppress(TimeoutError):
            await until_async(lambda: held_on_all(servers), 1)
            return lease
        await lease.release()
    pytest.fail("one server or another always answered too late")


async def held_on_all(servers: list[EmbeddedServer]) -> bool:
    return not any([await is_free(server) for server in servers])


def renewals(lock: RedLock) -> list[int]:
    """Return how many renewals the client of each member has sent."""
    return [member.context.watchdog.renewals for member in lock._ownership.owners]


async def test_server_that_forgets_a_red_lock_lets_nobody_else_in(  # C11
    make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    lock, rival = make(lease_time=SHORT_LEASE), make()
    async with lock as lease:
        await servers[0].restart(keep_data=False)
        with pytest.raises(QuorumError):
            await rival.acquire(timeout=1)
        before = renewals(lock)
        await until(lambda: sorted(renewals(lock))[1] >= max(before) + 1)
        assert not lease.lost
        with pytest.raises(QuorumError):
            await rival.acquire(timeout=1)
    async with rival.hold(timeout=10):
        assert await lock.try_acquire() is None
    await until_async(lambda: all_free(servers))


async def test_quorum_that_forgets_is_a_loss(  # C11
    make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    lock, rival = make(lease_time=SHORT_LEASE), make()

    async def forget() -> None:
        for server in servers[:2]:
            await server.restart(keep_data=False)
        # Two of three have forgotten it, which is why crashed servers must stay down.
        await (await rival.acquire(timeout=10)).release()

    with pytest.raises(LeaseLostError):
        async with lock:
            # A task of its own: the loss, which can come between the two, must not cut it short.
            forgetting = asyncio.create_task(forget())
            await asyncio.sleep(30)
    await forgetting
    await until_async(lambda: all_free(servers))


async def test_minority_that_is_dead_or_silent_is_left_out(  # C12
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    servers = list(await asyncio.gather(*[server_factory() for _ in range(5)]))
    made = [clients(server.url) for server in servers]
    lock = made[0].get_red_lock(*[client.get_lock("k") for client in made])
    await asyncio.gather(*[client.ping() for client in made])
    await servers[3].pause()
    await servers[4].kill()
    async with lock.hold(timeout=10, lease_time=LEASE) as lease:
        # Asked side by side, each for a small part of the lease.
        assert lease.remaining > LEASE / 2
        assert [await is_free(server) for server in servers[:3]] == [False] * 3
    await servers[3].resume()
    await servers[4].start()
    # What was asked of it before is executed now, and undone.
    await asyncio.gather(*[client.ping() for client in made])
    await until_async(lambda: all_free(servers))


async def test_split_votes_end_with_a_holder(  # C13
    make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    locks = [make() for _ in range(3)]
    inside: list[int] = []
    visits = []

    async def visit(number: int) -> None:
        for _ in range(5):
            async with locks[number].hold(timeout=20):
                inside.append(number)
                assert inside == [number]
                await asyncio.sleep(0)
                inside.remove(number)
                visits.append(number)

    await asyncio.gather(*[visit(number) for number in range(3)])
    assert sorted(visits) == [0] * 5 + [1] * 5 + [2] * 5
    await until_async(lambda: all_free(servers))


async def test_vote_without_a_majority_is_given_back_everywhere(  # C13
    clients: ClientFactory, make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    others = [clients(server.url).get_lock("k") for server in servers]
    lock = make()
    leases = [await other.acquire() for other in others[:2]]
    # One of three says yes.
    with pytest.raises(QuorumError) as caught:
        await lock.acquire(timeout=1)
    assert len(caught.value.answers) == 3
    await until_async(lambda: is_free(servers[2]))
    waiting = asyncio.create_task(lock.acquire(timeout=20))
    await leases[0].release()
    await (await waiting).release()
    await leases[1].release()


async def test_clock_that_jumps_on_one_server_lets_nobody_else_in(  # C14
    make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    lock, rival = make(), make()
    async with await held_everywhere(lock, servers) as lease:
        assert lease.remaining <= LEASE * 0.99
        async with Redis.from_url(servers[1].url) as redis:
            # To a server whose clock has jumped forward the lease is over.
            await redis.pexpire("k", 1)
        await until_async(lambda: is_free(servers[1]))
        with pytest.raises(QuorumError):
            await rival.acquire(timeout=1)
        assert not lease.lost
    async with rival.hold(timeout=10):
        pass
    await until_async(lambda: all_free(servers))


async def test_multi_lock_whose_third_member_does_not_answer_holds_none(  # C15
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    far = clients(link.url)
    await answered(far)
    await answered(client)
    lock = client.get_multi_lock(client.get_lock("k1"), client.get_lock("k2"), far.get_lock("k3"))
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    with pytest.raises((ConnectionLostError, AcquireTimeoutError)):
        await lock.acquire(timeout=0.5)
    await answered(client)
    assert await redis.exists("k1", "k2") == 0
    assert await redis.exists("k3"), "granted, and nobody was told"
    link.pass_through()
    await answered(far)
    assert await redis.exists("k3") == 0


async def test_multi_lock_is_held_by_one_at_a_time(  # L25
    clients: ClientFactory,
) -> None:
    inside: set[str] = set()
    visits = []

    async def visit(client: Redisson, names: str) -> None:
        for _ in range(5):
            async with client.get_multi_lock(*map(client.get_lock, names)):
                assert inside.isdisjoint(names)
                inside.update(names)
                await asyncio.sleep(0.001)
                inside.difference_update(names)
                visits.append(names)

    both = clients(), clients()
    async with asyncio.timeout(45):
        await asyncio.gather(
            *[visit(client, names) for client in both for names in ("abc", "cba", "bc", "ac")]
        )
    assert len(visits) == 40


async def test_multi_lock_with_a_busy_member_gives_up_in_time_and_asks_little(  # L29
    client: Redisson, redis: Redis
) -> None:
    lock = client.get_multi_lock(*map(client.get_lock, ("k1", "k2", "k3")))
    await redis.hset("k2", "somebody", "1")  # held for ever
    await answered(client)
    sent = client.statistics().commands_sent
    with pytest.raises(AcquireTimeoutError):
        await lock.acquire(timeout=0.5)
    # All at once and back, one after the other and back, and a subscription: no loop.
    assert client.statistics().commands_sent - sent < 20
    await answered(client)
    assert await redis.exists("k1", "k3") == 0
    await redis.delete("k2")


async def test_red_lock_without_a_quorum_gives_up_in_time_and_sends_few_commands(  # L29
    make: MakeRedLock, servers: list[EmbeddedServer]
) -> None:
    lock = make()
    for server in servers[:2]:
        await server.kill()
    with pytest.raises(QuorumError):
        await lock.try_acquire()
    alive = next(m for m in lock._ownership.owners if str(servers[2].port) in m.context.database)
    sent = alive.context.executor.router.stream_for(b"k").traffic.commands
    with pytest.raises(QuorumError) as caught:
        await lock.acquire(timeout=0.5)
    assert len(caught.value.answers) == 3
    assert alive.context.executor.router.stream_for(b"k").traffic.commands - sent < 40
    await until_async(lambda: is_free(servers[2]))
    for server in servers[:2]:
        await server.start()
    async with lock.hold(timeout=20):
        pass
    await until_async(lambda: all_free(servers))
