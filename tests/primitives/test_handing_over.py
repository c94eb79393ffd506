"""A lease goes to another process: a token that one adopter can use, once."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquiredEvent,
    ClientClosedError,
    FencedLease,
    Lease,
    LeaseLostError,
    NotHeldError,
    Redisson,
    ReleasedEvent,
)
from redisson_py._engine.handed_over import PREFIX, HandedOver
from redisson_py._time import now
from redisson_py.locks.lock import ServerLock
from tests.fixtures.client import ClientFactory
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.leases import renewed_at_once
from tests.support.recorder import Recorder
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)

pytestmark = pytest.mark.also("cluster", "sentinel")

Make = Callable[[Redisson], ServerLock]

KINDS: dict[str, Make] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced": lambda client: client.get_fenced_lock("k"),
    "fair": lambda client: client.get_fair_lock("k"),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Make:
    """Makes the lock `k` of one kind."""
    return KINDS[request.param]


@pytest.fixture
def far(clients: ClientFactory) -> Redisson:
    """Another client."""
    return clients()


async def owners(redis: Redis) -> dict[bytes, bytes]:
    """Return who holds `k`, and how often."""
    found: dict[bytes, bytes] = await redis.hgetall("k")  # type: ignore[assignment]  # not decoded
    return found


async def gone(redis: Redis) -> None:
    """Return when nobody holds `k`, as its lease has run out."""
    await until_async(lambda: _is_gone(redis))


async def _is_gone(redis: Redis) -> bool:
    return not await redis.exists("k")


def check_engine(*clients: Redisson) -> None:
    """Fail if an invariant of these clients does not hold."""
    for client in clients:
        client._context.registry.check()
        client._watchdog.check()


class TestPassing:
    async def test_the_adopter_has_what_the_giver_had(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        given = await make(client).acquire()
        token = await given.hand_over()
        assert await owners(redis) == {given.owner.encode(): b"1"}, "it is kept for the adopter"
        adopted = await far.adopt(token)
        assert await owners(redis) == {adopted.owner.encode(): b"1"}
        assert type(adopted) is type(given)
        assert (adopted.name, adopted.token) == (given.name, given.token)
        assert adopted.remaining > 20
        assert await make(far).owned()
        assert await make(far).hold_count() == 1
        assert await make(client).try_acquire() is None
        check_engine(client, far)
        await make(far).release()
        assert await owners(redis) == {}
        after = await make(client).acquire()
        if isinstance(after, FencedLease):
            assert isinstance(given, FencedLease)
            assert after.token > given.token
        await after.release()

    async def test_the_giver_is_through_with_it(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        lock = make(client)
        async with lock.hold() as lease:
            token = await lease.hand_over()
            assert not lease.lost
            assert lease.remaining == 0
            lease.check()
            assert not await lock.owned()
            assert client.statistics().held_leases == 0
            with pytest.raises(NotHeldError, match="handed over"):
                await lease.release()
            with pytest.raises(NotHeldError):
                await lock.release()
            with pytest.raises(NotHeldError):
                await lease.extend(5)
            with pytest.raises(NotHeldError, match="handed over"):
                await lease.hand_over()
        assert await owners(redis) != {}, "the block has ended, and the name is taken"
        await (await far.adopt(token)).release()

    async def test_the_block_of_the_lock_itself(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        async with make(client) as lease:
            token = await lease.hand_over()
        assert await owners(redis) == {lease.owner.encode(): b"1"}
        async with await far.adopt(token):
            assert await make(client).try_acquire() is None
        assert await owners(redis) == {}

    async def test_it_may_come_back_and_go_on(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        lease: Lease = await make(client).acquire()
        tokens, seen = {lease.token}, {lease.owner}
        for taker in (far, client, client, far):
            lease = await taker.adopt(await lease.hand_over())
            tokens.add(lease.token)
            seen.add(lease.owner)
        assert len(tokens) == 1, "it is one hold, whoever has it"
        assert len(seen) == 5
        await lease.release()
        assert await owners(redis) == {}

    async def test_the_adopter_renews_it_and_the_giver_does_not(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        giver, taker = clients(lease_time=30), clients(lease_time=60)
        lease = await make(giver).acquire()
        token = await lease.hand_over()
        assert not giver._watchdog.holds
        await redis.pexpire("k", 20_000)
        adopted = await taker.adopt(token)
        assert await redis.pttl("k") > 30_000
        await redis.pexpire("k", 20_000)
        await renewed_at_once(taker)
        assert await redis.pttl("k") > 30_000
        await adopted.release()

    async def test_how_long_it_waits_for_an_adopter(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients(lease_time=20)
        lease = await make(client).acquire()
        token = await lease.hand_over(lease_time=600)
        assert 500_000 < await redis.pttl("k") <= 600_000
        adopted = await client.adopt(token)
        await client.ping()
        assert await redis.pttl("k") <= 20_000, "if the adopter dies it is free soon"
        assert adopted.remaining > 10
        await adopted.release()
        own = await make(client).acquire(lease_time=300)
        token = await own.hand_over()
        assert 200_000 < await redis.pttl("k") <= 300_000, "nor does the giver"
        adopted = await client.adopt(token)
        assert adopted.remaining < 20
        await adopted.release()

    async def test_the_counter_of_tokens_outlives_a_long_wait(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients(idle_lifetime=60)
        lease = await client.get_fenced_lock("k").acquire()
        token = await lease.hand_over(lease_time=600)
        assert await redis.pttl("redisson_lock_token:{k}") > 600_000
        adopted = await client.adopt(token)
        await adopted.release()

    async def test_a_name_of_bytes_and_odd_names(self, client: Redisson, far: Redisson) -> None:
        for name in (b"\xff\x00", "naïve 🔒", "with {tag}", "x" * 4096):
            lease = await client.get_lock(name).acquire()
            adopted = await far.adopt(await lease.hand_over(), name=name)
            assert adopted.name == name
            await adopted.release()

    async def test_it_reenters_extends_and_moves_on_like_any_other(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        adopted = await far.adopt(await (await make(client).acquire()).hand_over())
        async with make(far) as inner:
            assert inner.token == adopted.token
            assert list((await owners(redis)).values()) == [b"2"]
        await adopted.extend(50)
        assert await redis.pttl("k") > 30_000
        await adopted.release()

    async def test_tokens_grow_among_the_tasks_of_giver_and_adopter(
        self, clients: ClientFactory
    ) -> None:
        client, far = clients(turn=60), clients(turn=60)

        async def passed(owner: Redisson, lease: FencedLease) -> FencedLease:
            waiting = asyncio.create_task(owner.get_fenced_lock("k").acquire())
            await until_waiting(owner, 1)
            await lease.release()
            later = await waiting
            assert later.owner == lease.owner, "it was passed on inside this client"
            return later

        first = await client.get_fenced_lock("k").acquire()
        second = await passed(client, first)
        adopted = await far.adopt(await second.hand_over())
        assert isinstance(adopted, FencedLease)
        third = await passed(far, adopted)
        last = await client.adopt(await third.hand_over())
        assert isinstance(last, FencedLease)
        await last.release()
        after = await far.get_fenced_lock("k").acquire()
        assert first.token < second.token == adopted.token < third.token == last.token < after.token
        await after.release()

    async def test_the_former_hold_of_a_task_was_lost_and_nobody_knew(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        former = await make(client).acquire()
        await redis.delete("k")
        token = await (await make(far).acquire()).hand_over()
        adopted = await client.adopt(token)
        assert former.lost
        with pytest.raises(LeaseLostError):
            await former.release()
        assert not adopted.lost
        assert await make(client).owned()
        assert await owners(redis) == {adopted.owner.encode(): b"1"}
        await make(client).release()
        assert await owners(redis) == {}

    async def test_people_see_that_it_is_on_its_way(
        self, make: Make, client: Redisson, far: Redisson
    ) -> None:
        async def seen() -> tuple[str, str]:
            (holder,) = (await make(far).inspect()).holders
            return holder.owner, holder.state

        lease = await make(client).acquire()
        assert await seen() == (lease.owner, "held")
        token = await lease.hand_over()
        assert await seen() == (lease.owner, "handed over")
        for link in (client, far, client):
            adopted = await link.adopt(token)
            assert await seen() == (adopted.owner, "held")
            token = await adopted.hand_over()
            assert await seen() == (adopted.owner, "handed over")
        assert await make(far).force_release()
        assert (await make(far).inspect()).holders == ()

    async def test_what_listeners_and_counters_say(
        self, make: Make, clients: ClientFactory
    ) -> None:
        gave, took = Recorder(), Recorder()
        client, far = clients(listener=gave), clients(listener=took)
        lease = await make(client).acquire()
        adopted = await far.adopt(await lease.hand_over())
        assert [type(each) for each in gave.events] == [AcquiredEvent, ReleasedEvent]
        (acquired,) = took.events
        assert isinstance(acquired, AcquiredEvent)
        assert (acquired.owner, acquired.token) == (adopted.owner, lease.token)
        assert far.statistics().acquires == 1
        assert (client.statistics().held_leases, far.statistics().held_leases) == (0, 1)
        await adopted.release()
        assert client.statistics().losses == 0


class TestWhoWaits:
    async def test_a_task_of_the_giver_waits_for_the_adopter(
        self, make: Make, client: Redisson, far: Redisson, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_safety_poll(monkeypatch, 1000)
        lock = make(client)
        lease = await lock.acquire()
        waiting = [asyncio.create_task(lock.acquire()) for _ in range(3)]
        await until_waiting(client, 3)
        token = await lease.hand_over()
        check_engine(client)
        adopted = await far.adopt(token)
        assert not any(each.done() for each in waiting)
        await adopted.release()
        for each in waiting:
            got = await each
            if got.token is not None:
                assert adopted.token is not None
                assert got.token > adopted.token
            await got.release()

    async def test_those_who_wait_at_the_adopter_keep_their_order(
        self, make: Make, client: Redisson, far: Redisson, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_safety_poll(monkeypatch, 1000)
        lease = await make(client).acquire()
        order: list[int] = []

        async def visit(number: int) -> None:
            async with make(far):
                order.append(number)

        waiting = []
        for number in range(3):
            waiting.append(asyncio.create_task(visit(number)))
            await until_waiting(far, number + 1)
        adopted = await far.adopt(await lease.hand_over())
        waiting.append(asyncio.create_task(visit(3)))
        await until_waiting(far, 4)
        check_engine(far)
        await adopted.release()
        await asyncio.gather(*waiting)
        assert order == [0, 1, 2, 3]

    async def test_tasks_that_come_later_are_passed_it_here(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        far = clients(turn=60)
        lease = await client.get_fenced_lock("k").acquire()
        adopted = await far.adopt(await lease.hand_over())
        later = asyncio.create_task(far.get_fenced_lock("k").acquire())
        await until_waiting(far, 1)
        await adopted.release()
        got = await later
        assert got.owner == adopted.owner, "no command was sent for it"
        assert got.token > lease.token
        await got.release()

    async def test_who_waits_hears_that_a_long_wait_for_an_adopter_has_ended(
        self, make: Make, clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_safety_poll(monkeypatch, 1000)
        client, far = clients(lease_time=3), clients()
        token = await (await make(client).acquire()).hand_over(lease_time=600)
        waiting = asyncio.create_task(make(far).acquire())
        await until_waiting(far, 1)
        await until_listening(far)
        adopted = await client.adopt(token)
        await client.ping()
        # As if its process had died.
        client._watchdog.lose(adopted._hold, "forced")
        got = await asyncio.wait_for(waiting, 60)
        with pytest.raises(LeaseLostError):
            await adopted.release()
        await got.release()

    async def test_who_waits_gets_it_if_nobody_adopts(
        self, make: Make, clients: ClientFactory
    ) -> None:
        client, far = clients(lease_time=1), clients()
        lease = await make(client).acquire()
        waiting = asyncio.create_task(make(far).acquire())
        await until_waiting(far, 1)
        token = await lease.hand_over()
        got = await waiting
        with pytest.raises(LeaseLostError):
            await clients().adopt(token)
        await got.release()


class TestRefused:
    async def test_of_many_adopters_one_has_it(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients()
        token = await (await make(client).acquire()).hand_over()
        takers = [clients() for _ in range(3)] + [client]
        outcomes = await asyncio.gather(
            *[taker.adopt(token) for taker in takers for _ in range(4)], return_exceptions=True
        )
        (adopted,) = [each for each in outcomes if isinstance(each, Lease)]
        refused = [each for each in outcomes if each is not adopted]
        assert {type(each) for each in refused} == {NotHeldError}
        assert "already adopted" in str(refused[0])
        assert await owners(redis) == {adopted.owner.encode(): b"1"}
        await adopted.release()
        with pytest.raises(NotHeldError, match="already adopted"):
            await client.adopt(token)

    async def test_too_late(self, make: Make, clients: ClientFactory, redis: Redis) -> None:
        client = clients(lease_time=0.2)
        token = await (await make(client).acquire()).hand_over()
        await gone(redis)
        await asyncio.sleep(0.05)
        with pytest.raises(LeaseLostError, match="came too late") as caught:
            await client.adopt(token)
        assert caught.value.reason == "expired"
        assert await owners(redis) == {}
        async with make(client):
            with pytest.raises(LeaseLostError):
                await client.adopt(token)

    async def test_an_owner_is_no_token(self, make: Make, client: Redisson, far: Redisson) -> None:
        token = await (await make(client).acquire()).hand_over()
        adopted = await client.adopt(token)
        handed = HandedOver.read(token)
        for secret in ("", "1", handed.secret, adopted.owner):
            # Owners stand in logs, and anybody can compute a checksum.
            forged = dataclasses.replace(handed, owner=adopted.owner, secret=secret)
            with pytest.raises(LeaseLostError):
                await far.adopt(forged.text())
        adopted.check()
        await adopted.release()

    async def test_freed_by_force(self, make: Make, client: Redisson, far: Redisson) -> None:
        token = await (await make(client).acquire()).hand_over()
        assert await make(far).force_release()
        with pytest.raises(LeaseLostError, match="not on this server") as caught:
            await far.adopt(token)
        assert caught.value.reason == "taken"

    async def test_forced_after_the_adoption(
        self, make: Make, client: Redisson, far: Redisson
    ) -> None:
        adopted = await far.adopt(await (await make(client).acquire()).hand_over())
        assert await make(far).force_release()
        assert adopted.lost
        with pytest.raises(LeaseLostError):
            await adopted.release()

    async def test_another_name_prefix_or_database(
        self, client: Redisson, clients: ClientFactory, redis: Redis
    ) -> None:
        lease = await client.get_lock("k").acquire()
        token = await lease.hand_over()
        before = client.statistics().commands_sent
        with pytest.raises(ValueError, match="'k', not for 'other'"):
            await client.adopt(token, name="other")
        mapped = clients(prefix="p:")
        with pytest.raises(ValueError, match="prefix and name_mapper"):
            await mapped.adopt(token)
        handed = HandedOver.read(token)
        elsewhere = HandedOver(
            handed.kind, "k", b"k", "15", handed.owner, "s", None, 0, handed.until_ms
        )
        with pytest.raises(ValueError, match="database 15"):
            await client.adopt(elsewhere.text())
        future = HandedOver("gate", "k", b"k", handed.database, handed.owner, "s", None, 0, 1)
        with pytest.raises(ValueError, match="gate 'k'"):
            await client.adopt(future.text())
        assert (client.statistics().commands_sent, mapped.statistics().commands_sent) == (before, 0)
        await (await client.adopt(token)).release()

    async def test_no_token(self, client: Redisson) -> None:
        lease = await client.get_lock("k").acquire()
        token = await lease.hand_over()
        middle = len(token) // 2
        other = "A" if token[middle] != "A" else "B"
        damaged = [
            token[:-3],
            token + "AAAA",
            token[:middle] + other + token[middle + 1 :],
            token[:middle] + "é" + token[middle + 1 :],
            PREFIX,
            PREFIX + "AAAA",
        ]
        for text in damaged:
            with pytest.raises(ValueError, match="damaged") as caught:
                await client.adopt(text)
            assert caught.value.__cause__ is None
            assert token[len(PREFIX) : middle] not in str(caught.value)
        for text in ("", "hello", lease.owner):
            with pytest.raises(ValueError, match="no token of hand_over"):
                await client.adopt(text)
        with pytest.raises(ValueError, match="another release"):
            await client.adopt(token.replace("redisson-py.1.", "redisson-py.2."))
        wrong: Any
        for wrong in (None, token.encode(), 7):
            with pytest.raises(TypeError, match="must be the str"):
                await client.adopt(wrong)
        await (await client.adopt(f" {token}\n")).release()

    async def test_what_cannot_be_handed_over(
        self, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        lock = client.get_lock("k")
        both = client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))
        sides, units = client.get_read_write_lock("rw"), client.get_semaphore("s", 2)
        cases: list[tuple[Any, str]] = [
            (lock.hold(max_hold=60), "max_hold"),
            (client.get_lock("m").hold(min_hold=60), "min_hold is not over"),
            (both, "several locks"),
            (sides.read_lock(), "only locks"),
            (sides.write_lock(), "only locks"),
            (units.hold(), "only locks"),
        ]
        for block, why in cases:
            async with block as lease:
                with pytest.raises(RuntimeError, match=f"cannot be handed over.*{why}"):
                    await lease.hand_over()
                assert not lease.lost
        await units.delete()
        assert await client.get_lock("m").force_release()
        async with both:
            (member,) = client.get_lock("a")._ownership.all_holds()
            with pytest.raises(RuntimeError, match="made of several"):
                await member.live[0].hand_over()
        outer = await lock.acquire()
        inner = await lock.acquire()
        for lease in (outer, inner):
            with pytest.raises(RuntimeError, match="more than once"):
                await lease.hand_over()
        await inner.release()
        await (await far.adopt(await outer.hand_over())).release()

    async def test_after_its_min_hold_it_can_be_handed_over(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        async with make(client).hold(min_hold=0.05) as lease:
            began = now()
            await until(lambda: now() > began + 0.06)
            token = await lease.hand_over()
        async with await far.adopt(token):
            pass
        assert await owners(redis) == {}

    async def test_bad_times(self, client: Redisson) -> None:
        async with client.get_lock("k").hold() as lease:
            before = client.statistics().commands_sent
            for bad in (0, -1, float("nan"), float("inf"), 0.0001):
                with pytest.raises(ValueError, match="lease_time"):
                    await lease.hand_over(lease_time=bad)
            assert client.statistics().commands_sent == before

    async def test_a_lost_lease(
        self, make: Make, client: Redisson, far: Redisson, redis: Redis
    ) -> None:
        lease = await make(client).acquire()
        await redis.delete("k")
        with pytest.raises(LeaseLostError) as caught:
            await lease.hand_over()
        assert caught.value.reason == "taken"
        assert lease.lost
        with pytest.raises(LeaseLostError):
            await lease.release()
        ended = await make(client).acquire(lease_time=0.05)
        await ended.wait_lost()
        with pytest.raises(LeaseLostError):
            await ended.hand_over()
        with pytest.raises(LeaseLostError):
            await ended.release()

    async def test_a_closed_client(self, make: Make, clients: ClientFactory, redis: Redis) -> None:
        client, far = clients(), clients()
        lease = await make(client).acquire()
        token = await lease.hand_over()
        await client.aclose()
        assert await owners(redis) != {}, "the client has nothing to release any more"
        with pytest.raises(ClientClosedError):
            await client.adopt(token)
        await (await far.adopt(token)).release()


class TestMeanwhile:
    """Something else happens to the hold while it is being handed over."""

    async def test_released(self, make: Make, client: Redisson, redis: Redis) -> None:
        lease = await make(client).acquire()
        giving = asyncio.create_task(lease.hand_over())
        await asyncio.sleep(0)
        await lease.release()
        with pytest.raises(NotHeldError, match="meanwhile"):
            await giving
        assert await owners(redis) == {}

    async def test_handed_over_twice(self, make: Make, client: Redisson, redis: Redis) -> None:
        lease = await make(client).acquire()
        outcomes = await asyncio.gather(
            *[lease.hand_over() for _ in range(3)], return_exceptions=True
        )
        (token,) = [each for each in outcomes if isinstance(each, str)]
        assert {type(each) for each in outcomes if each is not token} <= {
            NotHeldError,
            RuntimeError,
        }
        await (await client.adopt(token)).release()
        assert await owners(redis) == {}

    async def test_extended(self, make: Make, client: Redisson, redis: Redis) -> None:
        lease = await make(client).acquire()
        giving = asyncio.create_task(lease.hand_over())
        await asyncio.sleep(0)
        await lease.extend(60)
        with pytest.raises(RuntimeError, match="still held"):
            await giving
        assert not lease.lost
        await (await client.adopt(await lease.hand_over())).release()
        assert await owners(redis) == {}

    async def test_acquired_again(self, make: Make, client: Redisson, redis: Redis) -> None:
        lock = make(client)
        lease = await lock.acquire()
        holder = asyncio.current_task()
        assert holder is not None
        outcome: list[BaseException | str] = []

        async def give() -> None:
            try:
                outcome.append(await lease.hand_over())
            except RuntimeError as error:
                outcome.append(error)

        giving = asyncio.create_task(give())
        await asyncio.sleep(0)
        inner = await lock.acquire()
        await giving
        assert "more than once" in str(outcome[0])
        await inner.release()
        assert not lease.lost
        await lease.release()
        assert await owners(redis) == {}

    async def test_a_min_hold_began(self, make: Make, client: Redisson, redis: Redis) -> None:
        lock = make(client)
        lease = await lock.acquire()
        async with lock.hold(min_hold=60):
            giving = asyncio.create_task(lease.hand_over())
        with pytest.raises(RuntimeError, match="cannot be handed over"):
            await giving
        lease.check()
        await lease.release()
        assert [*await owners(redis)] == [f"{lease.owner}:kept".encode()]
        assert await lock.force_release()

    async def test_the_client_closes(self, make: Make, clients: ClientFactory) -> None:
        client = clients()
        lease = await make(client).acquire()
        giving = asyncio.create_task(lease.hand_over())
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises((ClientClosedError, LeaseLostError)):
            await giving
        other = clients()
        token = await (await make(other).acquire(timeout=20)).hand_over()
        taking = asyncio.create_task(other.adopt(token))
        await asyncio.sleep(0)
        await other.aclose()
        outcome = (await asyncio.gather(taking, return_exceptions=True))[0]
        assert isinstance(outcome, ClientClosedError | Lease)
        if isinstance(outcome, Lease):
            assert outcome.lost


class TestCancelled:
    async def test_the_giver_at_every_await(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        client, far = clients(), clients()
        lock = make(client)

        async def trial(cut: Probe) -> None:
            async with lock.hold(timeout=20) as lease:
                token = await cut(lease.hand_over())
                assert not lease.lost
                if token is None:
                    assert lease.remaining > 0, "it is still held"
                    assert await lock.owned()
                    (hold,) = lock._ownership.all_holds()
                    assert not hold.is_changing, "no answer is awaited any more"
                    async with lock:
                        pass
                    check_engine(client)
                else:
                    check_engine(client)
                    async with await far.adopt(token):
                        pass
            await until_async(lambda: _is_gone(redis))

        swept = await sweep(trial)
        assert swept.cancellations >= 4
        await until(lambda: not client._context.pending)
        # Nothing that was left on the way does any harm later.
        async with make(far).hold(timeout=20):
            await client.ping()
        assert await owners(redis) == {}

    async def test_a_giver_whose_coroutine_is_closed(self, make: Make, client: Redisson) -> None:
        async with make(client) as lease:
            giving = lease.hand_over()
            giving.send(None)
            giving.close()
            assert lease.remaining > 0
            (hold,) = make(client)._ownership.all_holds()
            assert not hold.is_changing
            assert hold.uncertain, "it may have arrived, or arrive later"

    async def test_a_giver_that_was_cancelled_hands_over_again(
        self, make: Make, clients: ClientFactory
    ) -> None:
        client, far = clients(), clients()

        async def trial(cut: Probe) -> None:
            lease = await make(client).acquire(timeout=20)
            token = await cut(lease.hand_over()) or await lease.hand_over()
            async with await far.adopt(token) as adopted:
                assert adopted.token == lease.token

        assert (await sweep(trial)).cancellations >= 4

    async def test_the_adopter_at_every_await(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        client, far = clients(), clients()

        async def trial(cut: Probe) -> None:
            lease = await make(client).acquire(timeout=20)
            token = await lease.hand_over()
            adopted = await cut(far.adopt(token))
            check_engine(far)
            if adopted is not None:
                assert await owners(redis) == {adopted.owner.encode(): b"1"}
                await adopted.release()
            await far.ping()
            # It was given back, or the request was not carried out: then the token is good.
            if left := await owners(redis):
                assert left == {lease.owner.encode(): b"1"}
                async with await far.adopt(token):
                    pass
            assert await owners(redis) == {}
            await until(lambda: not far._context.pending)

        assert (await sweep(trial)).cancellations >= 4
        assert far.statistics().held_leases == 0

    async def test_the_adopter_while_it_connects(
        self, make: Make, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients()

        async def trial(cut: Probe) -> None:
            token = await (await make(client).acquire(timeout=20)).hand_over()
            far = clients()
            adopted = await cut(far.adopt(token))
            if adopted is not None:
                await adopted.release()
            await far.aclose()
            if await owners(redis):
                async with await client.adopt(token):
                    pass
            assert await owners(redis) == {}

        assert (await sweep(trial)).cancellations >= 4
