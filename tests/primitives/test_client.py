"""The client: construction, closing, loops, forks."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from redis.asyncio import Redis
from redis.credentials import CredentialProvider

from redisson_py import (
    BackendError,
    ClientClosedError,
    ConnectionLostError,
    Redisson,
)
from redisson_py._stream.call import Call
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.streams import stream_of
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)

pytestmark = pytest.mark.also("floor")


async def test_id_is_a_uuid_of_its_own(clients: ClientFactory) -> None:
    first, second = clients(), clients()
    assert str(uuid.UUID(first.id)) == first.id != second.id


async def test_nothing_connects_until_first_use(client: Redisson) -> None:
    client.get_lock("k")
    assert client.statistics().connections == 0
    await client.ping()
    assert client.statistics().connections == 1


@pytest.mark.usefixtures("one_server")
async def test_existing_client_is_used_and_left_open(server_url: str, redis: Redis) -> None:
    theirs = Redis.from_url(server_url, decode_responses=True, protocol=2, max_connections=1)
    async with Redisson(theirs) as client:
        async with client.get_lock("k") as lease:
            assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
    assert await theirs.get("k") is None
    await theirs.aclose()


def test_unknown_setting_in_the_url_is_told_at_once() -> None:
    """Without its name, which may be a part of a password."""
    with pytest.raises(ValueError, match=r"known are client_name, .* username"):
        Redisson.from_url("redis://localhost?no_such_thing=1")


@pytest.mark.usefixtures("one_server")
async def test_failing_credential_provider_is_an_error_and_not_the_end(server_url: str) -> None:
    class Vault(CredentialProvider):
        sealed = True

        def get_credentials(self) -> tuple[str]:
            if self.sealed:
                raise LookupError("the vault is sealed")
            return ("",)

    vault = Vault()
    theirs = Redis.from_url(server_url, credential_provider=vault)
    async with Redisson(theirs) as client:
        for _ in range(2):
            with pytest.raises(BackendError, match="the vault is sealed"):
                await client.get_lock("k").acquire()
    await theirs.aclose()


async def test_close_is_idempotent_and_lasts_until_opened_again(
    clients: ClientFactory,
) -> None:
    client = clients()
    lock = client.get_lock("k")
    async with lock:
        pass
    await client.aclose()
    await client.aclose()
    for call in (lock.acquire, lock.try_acquire, lock.locked, lock.inspect, client.ping):
        with pytest.raises(ClientClosedError):
            await call()
    async with client:
        await client.ping()
    with pytest.raises(ClientClosedError):
        await client.ping()


async def test_close_releases_what_is_held_with_one_warning(
    clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients()
    plain = await client.get_lock("plain").acquire()
    fenced = await client.get_fenced_lock("fenced").acquire()
    await client.get_lock("plain").acquire()
    await client.aclose()
    assert await redis.exists("plain", "fenced") == 0
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "'plain'" in warnings[0]
    assert "'fenced'" in warnings[0]
    # Whoever still relies on them is told.
    assert plain.lost
    assert fenced.lost
    assert plain.remaining == fenced.remaining == 0.0


async def test_close_names_some_of_many(
    clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients()
    await asyncio.gather(*[client.get_lock(f"k{n}").acquire() for n in range(25)])
    await client.aclose()
    (warning,) = [record.message for record in caplog.records if "still holding" in record.message]
    assert warning.endswith("and 15 more")
    assert await redis.keys("k*") == []


async def test_close_wakes_waiters_for_other_clients_and_local_ones(
    clients: ClientFactory,
) -> None:
    holder, client = clients(), clients()
    lease = await holder.get_lock("far").acquire()
    near = await client.get_lock("near").acquire()
    waiters = [
        asyncio.create_task(client.get_lock(name).acquire())
        for name in ("far", "far", "near", "near")
    ]
    lost = asyncio.create_task(near.wait_lost())
    await until_waiting(client, 4)
    await until_listening(client)
    await client.aclose()
    for outcome in await asyncio.gather(*waiters, lost, return_exceptions=True):
        assert isinstance(outcome, ClientClosedError)
    await lease.release()


@pytest.mark.parametrize("settled", [True, False], ids=["all asleep", "some still asking"])
@pytest.mark.parametrize("names", [1, 1000], ids=["in one line", "each for another lock"])
async def test_close_in_the_middle_of_a_thousand_waiters(
    names: int,
    settled: bool,
    clients: ClientFactory,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)
    client = clients(client_name="leaver")
    locks = [client.get_lock(f"k{n % names}") for n in range(1000)]
    for lock in locks[:names]:
        await redis.hset(lock.name, "somebody", 1)
        await redis.pexpire(lock.name, 60_000)
    await client.ping()
    tasks = [asyncio.create_task(lock.acquire(timeout=60)) for lock in locks]
    await until_waiting(client, 1000)
    if settled:
        # The first of a queue of clients is called on its own channel, and watches that of all.
        await until(lambda: client._table.seats == 2 * names and not stream_of(client).waiting)
    await client.aclose()
    async with asyncio.timeout(20):  # sooner than the safety poll: they were woken
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, ClientClosedError) for outcome in outcomes)
    assert_idle(client)
    assert not stream_of(client)._under_way()

    async def gone() -> bool:
        names = [row["name"] for row in await redis.client_list()]
        return "leaver" not in names and not await redis.pubsub_channels()

    await until_async(gone)
    # At the server: the holders, and nothing of us but tombstones, which expire.
    keys = await redis.keys("k*")
    assert len(keys) == names
    for key in keys:
        assert await redis.hgetall(key) == {b"somebody": b"1"}


async def test_close_takes_nothing_for_the_waiter_it_wakes(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients()
    await redis.hset("k", "somebody", 1)
    waiting = asyncio.create_task(client.get_lock("k").acquire())
    await until_listening(client)
    # Free, but nobody said so: who asked again now would get it.
    await redis.delete("k")
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiting
    assert not await redis.exists("k")


async def test_close_in_the_middle_of_asking_leaves_nothing(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients()
    await client.ping()
    tasks = [asyncio.create_task(client.get_lock(f"k{n}").acquire()) for n in range(20)]
    await asyncio.sleep(0)
    await client.aclose()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, ClientClosedError) for outcome in outcomes)
    assert await redis.exists(*[f"k{n}" for n in range(20)]) == 0


async def test_close_after_the_answer_but_before_its_task_leaves_nothing(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients()
    await client.ping()
    send, error = stream_of(client).send, ClientClosedError("the client was closed")

    def close() -> None:
        client._let_everything_go(error, list(client._watchdog.holds))

    def send_and_close_when_answered(call: Call) -> Call:
        monkeypatch.undo()
        # Registered before the asking task waits, so called before that task wakes.
        call.future.add_done_callback(lambda _: close())
        return send(call)

    monkeypatch.setattr(stream_of(client), "send", send_and_close_when_answered)
    with pytest.raises(ClientClosedError):
        await client.get_lock("k").acquire()
    await client.aclose()
    assert not await redis.exists("k")


async def test_another_loop_is_refused(clients: ClientFactory) -> None:
    client = clients()
    await client.ping()
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(client.ping())
        except ClientClosedError as error:
            errors.append(error)

    await asyncio.to_thread(elsewhere)
    assert "another event loop" in str(errors[0])
    await client.ping()


async def test_unreachable_server_is_said_within_the_timeout(clients: ClientFactory) -> None:
    client = clients("redis://127.0.0.1:1")
    with pytest.raises(ConnectionLostError) as caught:
        await client.get_lock("k").acquire(timeout=0.5)
    assert not caught.value.maybe_held
    assert "127.0.0.1:1" in str(caught.value)
    assert caught.value.__cause__ is not None


def test_loop_that_ends_without_closing_gives_the_locks_back(
    server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def careless() -> None:
        client = Redisson.from_url(server_url)
        await client.get_lock("k").acquire()

    asyncio.run(careless())
    assert "'k'" in caplog.text

    async def next_one() -> None:
        async with Redisson.from_url(server_url) as client:
            async with client.get_lock("k").hold(timeout=30):
                pass

    asyncio.run(next_one())


@pytest.mark.more
async def test_description_lasts_as_long_as_the_hold(clients: ClientFactory, redis: Redis) -> None:
    client = clients(lease_time=3)
    key = f"redisson_py:client:{client.id}"
    async with client.get_lock("k"):
        # As if most of the three leases had passed for which it was first written.
        await redis.pexpire(key, 4000)

        async def is_written_again() -> bool:
            return await redis.pttl(key) > 4000

        await until_async(is_written_again)
    await client.aclose()
    assert not await redis.exists(key)
