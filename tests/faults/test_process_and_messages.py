"""This process, its clocks and blocks, messages, credentials, numbers of permits, and
a process that is stopped while it waits.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.credentials import CredentialProvider

from redisson_py import (
    BackendError,
    ConnectionLostError,
    LeaseLostError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py._keys import lock_channel
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import PASSWORD, ProxyFactory, documented_rules, url_of_user
from tests.support.fair_locks import nothing_left, one_by_one, server_side, until_queued
from tests.support.fake_peer import SILENCE, FakePeer
from tests.support.leases import assert_ends_in_time
from tests.support.stream_talk import Talk
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

LEASE = 0.6


async def renewed(client: Redisson, times: int) -> None:
    """Return when that many batches more were renewed."""
    before = client.statistics().renewals
    await until(lambda: client.statistics().renewals >= before + times)


@pytest.mark.parametrize("step", [-86_400, 86_400], ids=["back", "forward"])
async def test_step_of_the_wall_clock_changes_nothing(
    step: float, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(lease_time=6)
    async with client.get_lock("k") as watched, client.get_lock("l").hold(lease_time=60) as fixed:
        wall, wall_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: wall() + step)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + int(step * 1e9))
        await renewed(client, 1)
        assert not watched.lost
        assert 0 < watched.remaining <= 6
        assert 50 < fixed.remaining <= 60
        assert await client.get_lock("l").try_acquire(timeout=0) is not None
        await client.get_lock("l").release()
    assert client.statistics().losses == 0


async def test_watchdog_that_fails_is_loud_and_the_lease_is_lost_in_time(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(lease_time=6)
    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("whatever goes wrong in a renewal")

    with pytest.raises(LeaseLostError):
        async with client.get_lock("k") as lease:
            monkeypatch.setattr(client._executor, "start_batch", fail)
            await assert_ends_in_time(lease, redis, "k")
            await asyncio.sleep(30)
    assert all(isinstance(error, ZeroDivisionError) for error in errors)
    assert errors


async def test_error_of_the_body_is_not_masked_by_a_release_that_fails(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(link.url, command_timeout=1, on_release_error="raise")
    await client.ping(timeout=20)
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.get_lock("k").hold(timeout=20):
            link.refuse()
            link.cut()
            raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert note.startswith(ReleaseFailedError.__name__)


async def test_forged_messages_wake_and_grant_nothing(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    holder, waiter = clients(), clients()
    garbage = [b"", b"0", b"1", b"-1", b"7", b"0x0", b"\xff\x00", b"9" * 9_999, b"x" * 100_000]
    async with holder.get_lock("k"):
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        commands = waiter.statistics().commands_sent
        for payload in garbage:
            await redis.publish(lock_channel(b"k").decode(), payload)
        await answered(waiter)
        await until_listening(waiter)
        assert not waiting.done()
        assert waiter.statistics().commands_sent - commands <= len(garbage) + 1
    await (await waiting).release()
    assert waiter.statistics().connections == 1


async def test_listener_that_the_server_cuts_off_for_being_slow_listens_again(
    clients: ClientFactory, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    holder, waiter = clients(own_server.url), clients(own_server.url)
    channel = f"{lock_channel(b'k').decode()}:{waiter.id}"
    async with Redis.from_url(own_server.url) as admin, holder.get_lock("k"):
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        await admin.config_set("client-output-buffer-limit", "pubsub 100kb 100kb 0")
        # In one go, and small: a large message Valkey refers to instead of copying it.
        flood = "for i = 1, 2000 do redis.call('PUBLISH', KEYS[1], string.rep('x', 1000)) end"
        await admin.eval(flood, 1, channel)
        await until(lambda: waiter.statistics().connections == 2)
        await until_async(lambda: listened_to(admin, channel))
        await until_listening(waiter)
    await (await waiting).release()


async def listened_to(redis: Redis, channel: str) -> bool:
    return bool(await redis.pubsub_numsub(channel) == [(channel.encode(), 1)])


async def test_confirmation_that_never_comes_gives_nobody_the_answer_of_another() -> None:
    async with FakePeer() as peer, Talk(peer.url, reply_timeout=1) as talk:
        await talk.ask("PING")
        peer.plan.append(SILENCE)
        talk.stream.subscribe(b"ch")
        calls = [talk.call("GET", str(number)) for number in range(3)]
        answers = [await call.future for call in calls]
        assert answers == [b"GET 0", b"GET 1", b"GET 2"]
        assert len(peer.links) == 2


async def test_user_that_is_switched_off_is_refused_at_once_and_let_in_later(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    async with Redis.from_url(own_server.url) as admin:
        await set_user(admin, "off", f">{PASSWORD}", *documented_rules())
        client = clients(url_of_user(own_server.url, "app"))
        for _ in range(2):
            with pytest.raises(BackendError, match="refused the credentials") as caught:
                await client.get_lock("k").acquire()
            assert not isinstance(caught.value, ConnectionLostError)
        assert client.statistics().connections == 0
        await set_user(admin, "on")
        async with client.get_lock("k"):
            pass


async def test_new_password_is_asked_of_the_provider_and_the_lease_is_kept(
    own_server: EmbeddedServer,
) -> None:
    class Vault(CredentialProvider):
        password = "old"

        def get_credentials(self) -> tuple[str, str]:
            return "app", self.password

    vault = Vault()
    async with Redis.from_url(own_server.url) as admin:
        await set_user(admin, "on", ">old", *documented_rules())
        theirs = Redis.from_url(own_server.url, credential_provider=vault)
        async with Redisson(theirs) as client, client.get_lock("k") as lease:
            await set_user(admin, "resetpass", ">new")
            vault.password = "new"
            await admin.client_kill_filter(user="app")
            await renewed(client, 1)
            assert not lease.lost
            assert client.statistics().connections == 2
        await theirs.aclose()


async def set_user(admin: Redis, *rules: str) -> None:
    """Change what the user `app` may do."""
    await admin.execute_command("ACL", "SETUSER", "app", *rules)  # type: ignore[no-untyped-call]  # redis-py's


@pytest.mark.parametrize("make", ["get_semaphore", "get_permit_expirable_semaphore"])
@pytest.mark.parametrize(
    ("number", "error"),
    [
        (-1, ValueError),
        (2**63, ValueError),
        (True, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
    ],
)
async def test_bad_numbers_of_permits_are_refused_before_anything_is_sent(
    make: str, number: Any, error: type[Exception], client: Redisson
) -> None:
    semaphore = getattr(client, make)("semaphore")
    calls = [getattr(semaphore, "acquire_many", semaphore.acquire), semaphore.try_set_permits]
    if number != -1:
        calls.append(semaphore.add_permits)
    for call in calls:
        with pytest.raises(error):
            await call(number)
    assert client.statistics().commands_sent == 0


def state_of(pid: int) -> str:
    """Return the state of a process, as the kernel abbreviates it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_waiter_that_is_stopped_at_the_head_loses_its_position(
    client: Redisson, redis: Redis, server_url: str
) -> None:
    fair = await server_side(redis)
    lock = client.get_fair_lock("k")
    lease = await lock.acquire()
    command = [sys.executable, "-m", "tests.support.fair_visitor", server_url, str(LEASE)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n")
    await until_queued(fair, 1)
    (first,) = await fair.queued()
    (waiting,) = await one_by_one(fair, lock.acquire())
    try:
        process.send_signal(signal.SIGSTOP)
        await until(lambda: state_of(process.pid) == "T")
        await lease.release()
        lease = await asyncio.wait_for(waiting, 15)
        assert first not in await fair.queued()
    finally:
        process.send_signal(signal.SIGCONT)
    # Awake, it comes again, as the last.
    await until_queued(fair, 1)
    assert await redis.exists("visits") == 0
    await lease.release()
    # Without any bytes Python 3.11 leaves its input open.
    await process.communicate(b"")
    assert process.returncode == 0
    assert await redis.llen("visits") == 1
    await redis.delete("visits")
    assert await nothing_left(fair)
