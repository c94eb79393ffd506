"""The client: construction, closing, loops, failures of its background task, what it counts."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis
from redis.credentials import CredentialProvider

from redisson_py import BackendError, ClientClosedError, ConnectionLostError, Redisson
from redisson_py._engine.client_life import let_go
from redisson_py._redis.stream.call import Call
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ProxyFactory
from tests.support.recorder import Recorder
from tests.support.streams import answered_at, stream_of
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)


@pytest.mark.also("floor")
@pytest.mark.usefixtures("one_server")
async def test_existing_client_is_used_and_left_open(server_url: str, redis: Redis) -> None:
    theirs = Redis.from_url(server_url, decode_responses=True, protocol=2, max_connections=1)
    async with Redisson(theirs) as client:
        async with client.get_lock("k") as lease:
            assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
    assert await theirs.get("k") is None
    await theirs.aclose()


@pytest.mark.also("floor")
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


@pytest.mark.also("floor")
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


@pytest.mark.also("floor")
async def test_close_releases_what_is_held_with_one_warning(
    clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients()
    plain = await client.get_lock("plain").acquire()
    fenced = await client.get_fenced_lock("fenced").acquire()
    await client.get_lock("plain").acquire()
    waiting = asyncio.create_task(plain.wait_lost())
    await asyncio.sleep(0)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiting
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


@pytest.mark.also("floor")
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
        await until(
            lambda: client._context.bus.table.seats == 2 * names and not stream_of(client).waiting
        )
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


@pytest.mark.also("floor")
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


@pytest.mark.also("floor")
async def test_close_after_the_answer_but_before_its_task_leaves_nothing(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients()
    await client.ping()
    send, error = stream_of(client).send, ClientClosedError("the client was closed")

    def close() -> None:
        let_go(client._context, error, list(client._watchdog.holds))

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


@pytest.mark.also("floor")
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


@pytest.mark.also("floor")
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


@pytest.mark.also("floor")
async def test_failure_of_the_background_task_is_loud_and_not_the_end(
    clients: ClientFactory, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = clients(), clients()
    theirs = await other.get_lock("{k}theirs").acquire()
    async with client.get_lock("k") as lease:
        local = asyncio.create_task(client.get_lock("k").acquire())
        remote = asyncio.create_task(client.get_lock("{k}theirs").acquire())
        await until_waiting(client, 2)
        await until_listening(client)
        # Whatever goes wrong inside it: here, something that is not there.
        stream_of(client)._become_ready = None  # type: ignore[method-assign,assignment]
        stream_of(client).abort("test")
        for waiting in (remote, asyncio.create_task(answered_at(client, "k"))):
            with pytest.raises(ConnectionLostError, match=r"TypeError.*not callable") as caught:
                await waiting
            assert isinstance(caught.value.__cause__, TypeError)
        failures = [each for each in caplog.records if "background task" in each.getMessage()]
        assert failures
        assert all(each.exc_info and each.levelname == "ERROR" for each in failures)
        del stream_of(client)._become_ready
        # The next use finds it at work, and what was held is still held.
        await answered_at(client, "k")
        assert not lease.lost
        assert await client.get_lock("k").owned()
    await (await local).release()
    await theirs.release()
    async with client.get_lock("{k}theirs").hold(timeout=10):
        pass


@pytest.mark.also("floor")
async def test_what_must_arrive_survives_a_failure_of_the_background_task(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients()
    lease = await client.get_lock("k").acquire()
    stream_of(client)._become_ready = None  # type: ignore[method-assign,assignment]
    stream_of(client).abort("test")
    with pytest.raises(ConnectionLostError):
        await lease.release()
    assert await redis.exists("k")
    del stream_of(client)._become_ready
    await until_async(lambda: _is_free(redis, "k"))


async def test_end_of_the_task_itself_is_loud_and_not_the_end(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients()

    class Unforeseen(BaseException):
        """Not an Exception: the task ends, however careful it is."""

    async def run() -> None:
        raise Unforeseen

    client._router.run = run  # type: ignore[method-assign]
    with pytest.raises(ConnectionLostError, match="Unforeseen"):
        await client.ping()
    assert "background task" in caplog.text
    del client._router.run
    await client.ping()


async def _is_free(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


@pytest.mark.also("floor")
async def test_closing_while_it_connects_is_no_failure(
    clients: ClientFactory, proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    link = await proxy()
    client = clients(link.url)
    # The last question before the connection is used.
    link.swallow_reply(b"*1\r\n$5\r\nHELLO\r\n", 1)
    asking = asyncio.create_task(client.get_lock("k").acquire())
    await link.wait_until(lambda link: link.triggered == 1)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await asking
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


with_and_without = pytest.mark.parametrize("listener", [None, Recorder()])


def counted(client: Redisson) -> tuple[int, int, int]:
    statistics = client.statistics()
    return statistics.acquires, statistics.waits, statistics.timeouts


@with_and_without
async def test_a_crowd_in_one_process(clients: ClientFactory, listener: Recorder | None) -> None:
    client = clients(listener=listener, turn=60)
    held = 0.5

    async def work() -> None:
        async with client.get_lock("k"):
            await asyncio.sleep(0)

    async with client.get_lock("k"):
        tasks = [asyncio.create_task(work()) for _ in range(20)]
        await until_waiting(client, 20)
        # One of them goes away, and one gets no more than its time.
        tasks[7].cancel()
        assert await asyncio.create_task(client.get_lock("k").try_acquire(timeout=held)) is None
    await asyncio.gather(*tasks, return_exceptions=True)
    statistics = client.statistics()
    assert counted(client) == (20, 21, 1)
    assert statistics.waited > 19 * held * 0.9
    assert held * 0.9 < statistics.longest_wait < statistics.waited
    assert (statistics.held_leases, statistics.waiters, statistics.losses) == (0, 0, 0)


@with_and_without
async def test_no_answer_is_no_timeout(
    clients: ClientFactory, proxy: ProxyFactory, listener: Recorder | None
) -> None:
    link = await proxy()
    client = clients(link.url, listener=listener, command_timeout=1)
    await client.ping()
    link.black_hole()
    for timeout in (0, 0.2):
        with pytest.raises(ConnectionLostError):
            await client.get_lock("k").try_acquire(timeout=timeout)
    assert counted(client) == (0, 0, 0)
    link.pass_through()
    link.cut()
    await client.ping(timeout=30)


async def test_calls_that_could_not_be_sent_are_evicted(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(link.url)
    await client.ping()
    link.refuse()
    link.cut()
    for _ in range(5):
        with pytest.raises(ConnectionLostError):
            await client.get_lock("k").acquire(timeout=0.1)
    # The first may have been written before the loss was noticed.
    assert client.statistics().evictions >= 4
    link.pass_through()
    await client.ping()
