"""What the server may refuse: what is not documented, one command of that, everything at once.

Which error tells of a missing command: a `ScriptError` for each, whether a script calls it or
we send it by itself, with these exceptions. Without `client|setname` or `select`, needed only
for a client name or a database number, no connection is opened: `BackendError`. Without
`subscribe` or `unsubscribe` nothing fails: it is logged, and waiters ask again by the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import BackendError, FencedLock, LeaseLostError, Redisson, RLock, ScriptError
from redisson_py._cli.commands.acl import OUTSIDE, commands
from redisson_py._redis.scripts import source
from redisson_py._redis.stream import stream
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import PASSWORD, documented_rules, url_of_user
from tests.support.leases import renew_now
from tests.support.waiting import set_safety_poll, until, until_listening

pytestmark = pytest.mark.also("floor")

Allow = Callable[..., Awaitable[str]]

LOCKS: dict[str, Callable[[Redisson], RLock | FencedLock]] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced_lock": lambda client: client.get_fenced_lock("k"),
}
GREETING = ("client|setname", "select")
LISTENING = ("subscribe", "unsubscribe")
#: Only fenced locks ask for the time, and only composites on several servers who these are. The
#: type of a key is asked for when it was wrong.
UNUSED = [("lock", "time")]
UNUSED += [(kind, command) for kind in LOCKS for command in ("info", "type")]
#: The scripts of the locks that are used here; other primitives need other commands too.
OURS = ("lock.", "fenced_lock.")

#: A whole `use_everything` sends fewer; who is refused and tries again and again sends more.
MOST_COMMANDS = 60


@pytest_asyncio.fixture
async def allow(redis: Redis, server_url: str) -> AsyncIterator[Allow]:
    """Set or change what the user of these tests may do; the answer is its URL."""

    async def set_rules(*rules: str) -> str:
        await redis.execute_command("ACL", "SETUSER", "poor", *rules)  # type: ignore[no-untyped-call]  # redis-py's
        return url_of_user(server_url, "poor")

    await set_rules("reset", "on", f">{PASSWORD}")
    yield set_rules
    await redis.acl_deluser("poor")


def all_but(*missing: str) -> list[str]:
    return [rule for rule in documented_rules() if rule.removeprefix("+") not in missing]


async def use_everything(
    client: Redisson, lock: RLock | FencedLock, redis: Redis, prefix: str = ""
) -> None:
    """Use every script and command of a lock once, and wait for a lock that others have."""
    await client.ping()
    async with lock as lease:
        async with lock:
            await lock.inspect()
        await lease.extend(20)
        await lock.owned()
        await lock.locked()
        await lock.remaining()
    await lock.force_release()
    await taken(redis, prefix + "taken", 0.1)
    await (await client.get_lock("taken").acquire(timeout=10)).release()


async def taken(redis: Redis, key: str, seconds: float) -> None:
    """Have somebody hold a lock for a time."""
    await redis.hset(key, "somebody", 1)
    await redis.pexpire(key, int(seconds * 1000))


async def unending(redis: Redis) -> list[bytes]:
    """Return the keys that no lease ends, but for the counters of fencing tokens."""
    keys = [key async for key in redis.scan_iter() if b"redisson_lock_token" not in key]
    return [key for key in keys if await redis.pttl(key) == -1]


def commands_of_locks() -> list[str]:
    """Return the documented commands without those that only other primitives' scripts need."""
    scripts = source.load_all()
    calls = {script.name: set(source.CALL.findall(script.text)) for script in scripts}
    locks = {c for name, used in calls.items() if name.startswith(OURS) for c in used}
    others = {c for name, used in calls.items() if not name.startswith(OURS) for c in used}
    only_others = {command.lower() for command in others - locks}
    return [c for c in commands() if c not in only_others or c in OUTSIDE]


@pytest.mark.parametrize("prefix", ["", "app:", "app{7}:"])
@pytest.mark.parametrize("kind", LOCKS)
async def test_documented_permissions_are_enough(
    kind: str, prefix: str, clients: ClientFactory, allow: Allow, redis: Redis
) -> None:
    url = await allow(*documented_rules(prefix))
    client = clients(url, prefix=prefix, client_name="billing")
    await use_everything(client, LOCKS[kind](client), redis, prefix)
    await clients(url + "/1").ping()


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (kind, command)
        for kind in LOCKS
        for command in commands_of_locks()
        if command not in GREETING + LISTENING and (kind, command) not in UNUSED
    ],
)
async def test_missing_command_is_reported_at_once(
    kind: str, missing: str, clients: ClientFactory, allow: Allow, redis: Redis
) -> None:
    client = clients(await allow(*all_but(missing)))
    # Scripts that are there already need no loading.
    await redis.script_flush()
    if kind in ("lock", "fenced_lock") and missing in ("zadd", "zcard") and await is_old(redis):
        # Only the queue of clients needs it. Redis 6.2 cannot be asked, and who waits looks itself.
        await use_everything(client, LOCKS[kind](client), redis)
        return
    async with asyncio.timeout(30):
        with pytest.raises(ScriptError) as caught:
            await use_everything(client, LOCKS[kind](client), redis)
    assert any(words in caught.value.message for words in await refusals(redis, missing))
    assert client.statistics().commands_sent < MOST_COMMANDS
    assert client.statistics().connections == 1
    await client.aclose()
    assert await unending(redis) == []


async def is_old(redis: Redis) -> bool:
    """Return whether scripts cannot ask what a user may do."""
    return int((await redis.info("server"))["redis_version"].partition(".")[0]) < 7


async def refusals(redis: Redis, command: str) -> list[str]:
    """Return how the server may say that it refuses a command."""
    words = [f"'{command}'"]
    major, minor, *_ = (await redis.info("server"))["redis_version"].split(".")
    version = int(major), int(minor)
    if version < (7, 0):
        # It names no subcommand.
        words.append(f"'{command.partition('|')[0]}'")
    if version < (7, 2):
        # What a script may not call is not named, only the script and the line.
        words.append("The user executing the script can't run this command or subcommand")
    return words


@pytest.mark.parametrize("missing", GREETING)
async def test_missing_greeting_is_reported_at_once(
    missing: str, clients: ClientFactory, allow: Allow, redis: Redis
) -> None:
    client = clients(await allow(*all_but(missing)) + "/1", client_name="billing")
    async with asyncio.timeout(30):
        with pytest.raises(BackendError) as caught:
            await client.get_lock("k").acquire()
    assert any(words in str(caught.value) for words in await refusals(redis, missing))


@pytest.mark.parametrize("missing", LISTENING)
async def test_a_user_without_pubsub_permissions_can_still_wait(
    missing: str,
    clients: ClientFactory,
    allow: Allow,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = clients(await allow(*all_but(missing)))
    await use_everything(client, client.get_lock("k"), redis)
    assert client.statistics().commands_sent < MOST_COMMANDS
    # UNSUBSCRIBE is sent a moment after the last waiter left.
    words = await refusals(redis, missing)
    await until(lambda: any(each in caplog.text for each in words))
    assert caplog.text.count("cannot listen") == 1


async def test_what_a_script_may_not_do_is_refused_for_all_leases_together(
    clients: ClientFactory, allow: Allow, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(await allow(*documented_rules()), lease_time=600)
    leases = [await client.get_lock(f"{{k}}{number}").acquire() for number in range(8)]
    renew_now(client)
    # Loaded now.
    await until(lambda: client.statistics().renewals)
    await allow("-hexists")
    before = client.statistics().commands_sent
    renew_now(client)
    await until(lambda: "refused to renew 8 leases" in caplog.text)
    await client.ping()
    # A batch that is halved down to its leases is 15 scripts.
    assert client.statistics().commands_sent - before < 8
    await allow("+hexists")
    for lease in leases:
        await lease.release()


@pytest.mark.parametrize("forbidden", ["hexists", "@all"])
async def test_holder_whose_renewals_are_refused_is_notified_when_its_lease_ends(
    forbidden: str,
    clients: ClientFactory,
    allow: Allow,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Redis refuses to say whose it is, and until the lease ends it is nobody else's."""
    client = clients(await allow(*documented_rules()), lease_time=3.6)
    other = clients()
    words = ["NOPERM"] if forbidden == "@all" else await refusals(redis, forbidden)
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k"):
            await allow(f"-{forbidden}")
            waiting = asyncio.create_task(other.get_lock("k").acquire(timeout=30))
            await asyncio.sleep(30)
    assert caught.value.held_for > 1
    assert any(each in caplog.text for each in words), caplog.text
    await (await waiting).release()
    # Asked for again every 30th of the lease, on one connection.
    assert client.statistics().commands_sent < MOST_COMMANDS
    assert client.statistics().connections == 1


async def test_waiter_gets_on_when_its_channels_are_forbidden(
    clients: ClientFactory,
    allow: Allow,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 0.5)
    client = clients(await allow(*documented_rules()))
    await taken(redis, "k", 60)
    waiting = asyncio.create_task(client.get_lock("k").acquire(timeout=30))
    await until_listening(client)
    # The server ends the connections of those who listen to what they may not any more.
    await allow("resetchannels")
    await until(lambda: "cannot listen" in caplog.text)
    await redis.delete("k")
    lease = await waiting
    await allow("&redisson*")
    await lease.release()
    assert client.statistics().connections == 2
    assert client.statistics().commands_sent < MOST_COMMANDS


async def test_waiter_hears_of_releases_once_its_channels_are_allowed(
    clients: ClientFactory,
    allow: Allow,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 1000)
    monkeypatch.setattr(stream, "PERMISSION_PAUSE_SECONDS", 0.05)
    client = clients(await allow(*documented_rules()))
    async with client.get_lock("other"):
        pass
    # The server ends connections only of those who listen.
    await allow("resetchannels")
    holder = clients()
    lease = await holder.get_lock("k").acquire(lease_time=60)
    waiting = asyncio.create_task(client.get_lock("k").acquire(timeout=30))
    sent = client.statistics().commands_sent
    await until(lambda: client.statistics().commands_sent > sent + 10)
    assert caplog.text.count("cannot listen") == 1
    await allow("&redisson*")
    await until_listening(client)
    await lease.release()
    await (await waiting).release()


async def test_waiter_is_notified_when_its_user_is_deleted(
    clients: ClientFactory, allow: Allow, redis: Redis
) -> None:
    client = clients(await allow(*documented_rules()))
    await taken(redis, "k", 60)
    waiting = asyncio.create_task(client.get_lock("k").acquire())
    await until_listening(client)
    await redis.acl_deluser("poor")
    async with asyncio.timeout(30):
        with pytest.raises(BackendError, match="refused the credentials"):
            await waiting
    assert client.statistics().connections == 1
