"""What is special about an election in Redis: its scripts, what it publishes, and its neighbours.

What it has in common with those of other stores: tests/stores/test_election.py. That a leadership
is a lock: tests/contract.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py import AcquireTimeoutError, Election, Leader, LeaseLostError, Redisson
from redisson_py._redis.scripts.source import Arg
from redisson_py.locks.election import candidate_of
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ProxyFactory
from tests.stores.election_support import (
    Observer,
    Resource,
    Stalls,
    leading,
    queued,
    until_stopped,
)
from tests.support.cancellation_scene import once
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.lost_reply_calls import notice_soon
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, Scripts, everything
from tests.support.streams import answered, stream_of
from tests.support.waiting import set_safety_poll, until_listening

on_a_cluster_too = pytest.mark.also("cluster")


class ElectionScripts:
    """The scripts of the election `e`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._known: dict[str, Arg] = {
            "lock": "e",
            "queue": "redisson_lock_queue:{e}",
            "timeouts": "redisson_lock_timeout:{e}",
            "waiters": "{e}:redisson_py:waiters",
            "token": "redisson_lock_token:{e}",
            "channel": "redisson_lock__channel:{e}",
            "announced": "redisson_py_election:{e}",
            "wait_ms": 300_000,
            "alive_ms": LEASE,
            "place": "1",
        }

    async def run(self, verb: str, owner: str = A, **values: Any) -> Any:
        known = {**self._known, "owner": owner, "tombstone": f"{{e}}:redisson_py:tombstone:{owner}"}
        return await self._scripts.run(f"election.{verb}", known, **values)

    async def acquire(self, owner: str = A, value: str = "one", **values: Any) -> Any:
        return await self.run("acquire", owner, value=value, **values)


async def _scripts(redis: Redis) -> ElectionScripts:
    return ElectionScripts(await Scripts.on(redis))


@on_a_cluster_too
async def test_a_repeated_acquire_keeps_the_token_and_a_newer_value(redis: Redis) -> None:
    scripts = await _scripts(redis)
    (token,) = await scripts.acquire()
    assert await scripts.run("proclaim", value="two", number=7) == 1
    before = await everything(redis)
    assert await scripts.acquire() == [token]
    assert await everything(redis) == before
    found, value, left = await scripts.run("leader")
    assert (int(found), value, 0 < left <= LEASE) == (token, b"two", True)


@on_a_cluster_too
async def test_a_proclamation_that_comes_late_changes_nothing(redis: Redis) -> None:
    """Neither a newer value of its owner, nor that of the next leader."""
    scripts = await _scripts(redis)
    await scripts.acquire()
    assert await scripts.run("proclaim", value="two", number=7) == 1
    assert await scripts.run("proclaim", value="late", number=6) == 1
    assert (await scripts.run("leader"))[1] == b"two"
    assert await scripts.run("proclaim", value="two", number=7) == 1
    assert (await scripts.run("leader"))[1] == b"two"
    assert await scripts.run("proclaim", B, value="not mine", number=99) == 0
    assert await scripts.run("release") == 1
    assert await scripts.run("release") is None
    await scripts.acquire(B, "three")
    assert await scripts.run("proclaim", value="late", number=8) == 0
    assert (await scripts.run("leader"))[1] == b"three"
    # The next leader begins anew.
    assert await scripts.run("proclaim", B, value="four", number=1) == 1
    assert (await scripts.run("leader"))[1] == b"four"


@on_a_cluster_too
async def test_who_gave_up_is_refused_and_leaves_no_candidate(redis: Redis) -> None:
    scripts = await _scripts(redis)
    await scripts.acquire(B, "leads")
    assert await scripts.acquire() > 0
    assert await redis.lrange("redisson_lock_queue:{e}", 0, -1) == [A.encode()]
    assert await scripts.run("release", tombstone_ms=TOMBSTONE) is None
    assert await scripts.acquire() == -3
    assert await redis.exists("redisson_lock_queue:{e}", "redisson_lock_timeout:{e}") == 0
    await scripts.run("release", B)
    assert await scripts.acquire() == -3
    assert await scripts.run("leader") == []


async def test_tokens_grow_when_the_counter_is_lost_or_ahead(redis: Redis) -> None:
    scripts = await _scripts(redis)
    (first,) = await scripts.acquire()
    await scripts.run("release")
    await redis.delete("redisson_lock_token:{e}")
    (second,) = await scripts.acquire(B)
    assert second > first
    await scripts.run("release", B)
    await redis.set("redisson_lock_token:{e}", 2**52)
    assert await scripts.acquire() == [2**52 + 1]
    await scripts.run("release")
    await redis.set("redisson_lock_token:{e}", 2**53 - 1)
    with pytest.raises(ResponseError, match="used up"):
        await scripts.acquire()
    assert not await redis.exists("e")


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("acquire", {"value": "one"}),
        ("release", {}),
        ("proclaim", {"value": "one", "number": 1}),
        ("leader", {}),
    ],
)
async def test_a_key_of_another_type_is_refused(
    redis: Redis, verb: str, values: dict[str, Any]
) -> None:
    scripts = await _scripts(redis)
    await redis.set("e", "a user's")
    before = await everything(redis)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await scripts.run(verb, **values)
    assert await everything(redis) == before
    await redis.delete("e")


@on_a_cluster_too
async def test_a_fair_lock_of_the_same_name_stands_in_the_same_queue(
    client: Redisson, clients: ClientFactory
) -> None:
    """They exclude each other, in their order, and its holder is no leader."""
    election, lock = client.get_election("e"), clients().get_fair_lock("e")
    order: list[str] = []

    async def campaign() -> None:
        async with election.campaign("leader"):
            order.append("leader")

    async def hold() -> None:
        async with lock:
            order.append("holder")
            assert await election.leader() is None

    async with lock:
        assert await election.leader() is None
        with pytest.raises(AcquireTimeoutError):
            await election.acquire("leader", timeout=0)
        tasks = [asyncio.create_task(campaign())]
        await queued(election, 1)
        tasks.append(asyncio.create_task(hold()))
        await queued(election, 2)
    await asyncio.gather(*tasks)
    assert order == ["leader", "holder"]
    async with election.campaign("leader") as leadership:
        (holder,) = (await lock.inspect()).holders
        assert (holder.owner, holder.holds) == (leadership.owner, 1)


async def test_an_observer_sees_that_a_lease_has_ended(
    redis: Redis, client: Redisson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing announces it: the observer looks then, and not when the safety poll comes."""
    set_safety_poll(monkeypatch, 100_000.0)
    scripts = await _scripts(redis)
    await scripts.acquire(lease_ms=600_000)
    async with Observer(client.get_election("e")) as observer:
        await observer.saw("one")
        # It knows of the longer lease; a value that is published has it look again.
        await redis.pexpire("e", 500)
        await scripts.run("proclaim", value="two", number=7)
        await observer.saw_last(None)


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("timeout", "an argument of campaign() and acquire()"),
        ("value", "an argument of campaign() and acquire()"),
        ("max_hold", "an argument of campaign()"),
        ("ttl", "campaign() has max_hold="),
        ("blocking", "with timeout=0 it asks once"),
    ],
)
async def test_an_argument_that_another_call_takes(
    client: Redisson, word: str, advice: str
) -> None:
    make: Any = client.get_election
    with pytest.raises(TypeError) as refused:
        make("e", **{word: 5})
    assert advice in str(refused.value)


async def test_a_change_costs_an_observer_two_looks(client: Redisson, redis: Redis) -> None:
    """The look that a message is for, and one in case another came before it listened again."""
    election, scripts = client.get_election("e"), await _scripts(redis)
    await scripts.acquire(lease_ms=600_000)
    async with Observer(election) as observer:
        await observer.saw("one")
        await until_listening(client)
        before = client.statistics().commands_sent
        for number in range(5):
            await scripts.run("proclaim", value=str(number), number=number + 1)
            await observer.saw_last(str(number))
            await until_listening(client)
        assert client.statistics().commands_sent - before <= 2 * 5


async def test_an_observer_hears_that_a_leader_was_deposed(
    redis: Redis, client: Redisson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before its lease ends, and without a safety poll."""
    set_safety_poll(monkeypatch, 100_000.0)
    await (await _scripts(redis)).acquire(lease_ms=600_000)
    election = client.get_election("e")
    async with Observer(election) as observer:
        await observer.saw("one")
        assert await candidate_of(election).force_release()
        await observer.saw_last(None)


@pytest.fixture
def link_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost reply is noticed soon."""
    notice_soon(monkeypatch)


@pytest.mark.parametrize("lost", ["cut", "swallowed"])
@pytest.mark.usefixtures("link_soon")
async def test_the_reply_to_a_campaign_and_to_its_end_is_lost(
    proxy: ProxyFactory, clients: ClientFactory, client: Redisson, lost: str
) -> None:
    """Elected once, with one token; and when it has ended, nobody leads."""
    link = await proxy()
    far, election = clients(link.url), client.get_election("e")
    await far.ping()
    _lose(link, b"value-1", lost)
    leadership = await far.get_election("e").acquire("value-1", timeout=30)
    assert await election.leader() == Leader(b"value-1", leadership.token)
    assert link.triggered == 1
    _lose(link, leadership.owner.encode(), lost)
    await leadership.release()
    assert link.triggered == 2
    assert await election.leader() is None
    async with election.campaign("value-2") as following:
        assert following.token > leadership.token
    await answered(far)


def _lose(link: FaultProxy, match: bytes, how: str) -> None:
    if how == "cut":
        link.cut_after_execution(match)
    else:
        link.swallow_reply(match)


# Cancelled at each of its suspension points.

SOON = 20.0
Trial = Callable[[Redisson, Redisson, Probe], Coroutine[object, object, None]]


async def proclaim(client: Redisson, other: Redisson, cut: Probe) -> None:
    leadership = await client.get_election("e").acquire("one")
    await cut(leadership.proclaim("two"))
    await leadership.proclaim("three")
    assert await other.get_election("e").leader() == Leader(b"three", leadership.token)
    await leadership.release()


async def leader(client: Redisson, other: Redisson, cut: Probe) -> None:
    async with other.get_election("e").campaign("one") as leadership:
        found = await cut(client.get_election("e").leader())
        assert found is None or found == Leader(b"one", leadership.token)


async def next_look_of_an_observer(client: Redisson, other: Redisson, cut: Probe) -> None:
    elect = once(lambda: other.get_election("e").acquire("one"))

    def act() -> None:
        ready = stream_of(client).ready and not stream_of(client).waiting
        if client._context.bus.table.seats and ready and (cut.answered or cut.point is None):
            elect()

    async with aclosing(client.get_election("e").observe()) as states:
        assert await anext(states) is None
        seen = await cut(anext(states), act)
        assert seen is None or seen.text == "one"
    await (await elect()).release()


async def campaign_behind_another(client: Redisson, other: Redisson, cut: Probe) -> None:
    first = await other.get_election("e").acquire("first")
    release = once(first.release)

    def act() -> None:
        ready = stream_of(client).ready and not stream_of(client).waiting
        if client._context.bus.table.seats and ready and (cut.answered or cut.point is None):
            release()

    leadership = await cut(client.get_election("e").acquire("second"), act)
    await release()
    if leadership is not None:
        found = await other.get_election("e").leader()
        assert found == Leader(b"second", leadership.token)
        await leadership.release()


@on_a_cluster_too
@pytest.mark.parametrize(
    "each", [proclaim, leader, next_look_of_an_observer, campaign_behind_another]
)
async def test_sweep(each: Trial, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    set_safety_poll(monkeypatch, 6 * SOON)
    client, other = clients(), clients()

    async def run(cut: Probe) -> None:
        await each(client, other, cut)
        await answered(client)
        assert_idle(client)
        snapshot = await other.get_election("e").inspect()
        assert (snapshot.holders, snapshot.waiters) == ((), ())
        for one in (client, other):
            async with one.get_election("e").campaign("next", timeout=SOON):
                pass

    assert (await sweep(run)).cancellations


# A leader whose process is stopped.

_LEADER = """
import asyncio, sys
from redisson_py import LeaseLostError, Redisson

async def main(url, lease_time):
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        try:
            async with client.get_election("e").campaign("stopped") as leadership:
                print(leadership.token, flush=True)
                while True:
                    await asyncio.sleep(0.01)
        except LeaseLostError:
            print("lost", flush=True)

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


LEADER_LEASE = 2.0


async def _ends_at(redis: Redis) -> tuple[float, float]:
    """Return the server's time, and when it ends the lease of the leader, in seconds."""
    pipeline: Any = redis.pipeline(transaction=True)
    (seconds, micros), left = await pipeline.time().pttl("e").execute()
    assert left > 0
    return seconds + micros / 1e6, seconds + micros / 1e6 + left / 1e3


@pytest.mark.more
async def test_a_leader_that_is_stopped_is_followed_when_its_lease_ends(
    server_url: str, client: Redisson, clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    """By the server's clock, which a token shows: it is the time of its grant."""
    election, resource = client.get_election("e"), Resource()
    command = [sys.executable, "-c", _LEADER, server_url, str(LEADER_LEASE)]
    process = await asyncio.to_thread(
        lambda: subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    )
    assert process.stdout is not None
    try:
        stopped = int(await asyncio.to_thread(process.stdout.readline))
        assert resource.write(stopped)
        async with Observer(election) as observer, leading(election, "follows") as elected:
            assert not elected.done()
            process.send_signal(signal.SIGSTOP)
            await until_stopped(process.pid)
            # What it has sent before is carried out by then.
            await redis.ping()
            since, ends_at = await _ends_at(redis)
            async with Stalls(clients().get_election("e")) as stalls, asyncio.timeout(60):
                leadership = await elected
            granted_at = leadership.token / 1e6
            assert since < granted_at < (await _ends_at(redis))[0], "no time of a grant"
            measured("a leader stopped is followed after, s", f"{granted_at - since:.3f}")
            measured(
                "that is after the end of its lease, ms", f"{(granted_at - ends_at) * 1e3:.1f}"
            )
            # Redis counts leases in milliseconds.
            assert granted_at >= ends_at - 0.002
            assert granted_at - ends_at - stalls.seconds <= LEADER_LEASE / 10
            assert ends_at - since <= LEADER_LEASE
            await observer.saw_last("follows")
            assert resource.write(leadership.token)
            # What the stopped process was about to write comes now.
            assert not resource.write(stopped)
            process.send_signal(signal.SIGCONT)
            said = await asyncio.to_thread(process.stdout.readline)
            assert said == "lost\n"
            assert await election.leader() == Leader(b"follows", leadership.token)
            leadership.check()
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


@on_a_cluster_too
async def test_a_leader_is_deposed_by_force(client: Redisson, clients: ClientFactory) -> None:
    election, others = client.get_election("e"), clients().get_election("e")
    led = asyncio.Event()

    async def lead() -> None:
        async with election.campaign("one"):
            led.set()
            await asyncio.sleep(60)

    leader = asyncio.create_task(lead())
    await led.wait()
    async with leading(others, "two") as elected:
        assert await candidate_of(election).force_release()
        with pytest.raises(LeaseLostError) as caught:
            await leader
        assert caught.value.reason == "forced"
        following = await elected
        assert await election.leader() == Leader(b"two", following.token)


def test_the_class_says_what_it_is(client: Redisson) -> None:
    election: Election = client.get_election("e")
    assert repr(election) == "<Election 'e'>"
    assert election.statistics().waiters == 0
