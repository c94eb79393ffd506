"""What is refused changes nothing: bad numbers, keys of other types, full servers, poor users."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._redis.scripts.source import Arg, Script
from redisson_py.testing import EmbeddedServer
from tests.fixtures.redis_server import started_server
from tests.lua.conftest import Forbid
from tests.lua.scenes import SCENES
from tests.support.counting import Counted
from tests.support.scripts.any_lock import LOCKS
from tests.support.scripts.calls import BAD_MS, Scripts, everything

each_scene = pytest.mark.parametrize("name", SCENES)

#: Numbers that may be 0, and those that may also be below it.
MAY_BE_ZERO = {
    *("alive_ms", "compares", "counts", "creates", "entries", "expire_ms", "idle_ms", "life_ms"),
    *("looks", "per_client", "replaces", "start_units", "tombstone_ms", "version", "version_ms"),
    *("waits", "yields", "rate_limiter.acquire rate", "rate_limiter.acquire interval_ms"),
    *("expirable_semaphore.add units", "expirable_semaphore.release calls"),
    *("expirable_semaphore.set units", "fair_lock.release holds", "lock.release holds"),
    *("read_lock.release holds", "read_lock.renew lease_ms", "semaphore.add units"),
    *("rate_limiter.undo units", "semaphore.release units", "semaphore.set units"),
    "write_lock.release holds",
}
MAY_BE_NEGATIVE = {"start_units", "expirable_semaphore.add units", "semaphore.add units"}

#: Keys whose type is looked at only where they are needed, and one that refuses whatever it is.
OFTEN_IGNORED = {"version_key", "writers", "total", "token", "start", "tombstone"}
#: Scenes and scripts that do without a key.
IGNORES = {
    "client_queue.leave": {"lock"},
    # Only a sooner end is announced.
    "fair_lock.leave_taken": {"queue", "timeouts", "waiters"},
    "client_queue.leave_units": {"counter"},
    "read_write_lock.leave": {"lock"},
    "permit.set_lease": {"counter"},
    "expirable_semaphore.release": {"receipt"},
    "plain: adoption that was undone": {"adopted"},
    "rate_limiter.acquire": {"client_value", "client_permits"},
    "rate limiter: acquire of a client": {"value", "permits"},
    "rate limiter: rate of none": {"value", "client_value", "permits", "client_permits"},
    "rate_limiter.undo": {"client_value"},
    # Who runs it reads no record, and who has completed it nothing else.
    "once: acquire again": {"record"},
    "once.complete": {"receipt"},
    "once: completion of what is not run": {"receipt", "record"},
    "once: second completion": {"lock", "record", "receipt"},
    "fair: re-entry": {"queue", "timeouts", "waiters"},
    "fair: partial release": {"queue", "timeouts", "waiters"},
    "fair: new lease": {"timeouts", "waiters"},
}

REFUSED = r"(?i)permission|NOPERM|can't (run|publish)"
#: What may be left by a call that was refused: what refuses late ones, and used-up tokens.
BESIDE = re.compile(
    rb"tombstone|version:|receipt|redisson_lock_token|:token$|rwlock_timeout|:clients$|:total$"
    rb"|:arrival:|:writers$"
)
#: Commands that only the queue of clients needs of a release.
QUEUE_ONLY = {"-zrange", "-zcard", "-zadd", "-exists", "-zrangebyscore", "own channels"}


async def main_keys(redis: Redis) -> dict[bytes, Any]:
    """Return what is there, but for what may be left by a call that was refused."""
    return {
        key: value for key, value in (await everything(redis)).items() if not BESIDE.search(key)
    }


async def outcome(call: Awaitable[Any]) -> Any:
    """Return a reply, or the text of an error."""
    try:
        return await call
    except ResponseError as error:
        return str(error)


def is_grant(reply: Any) -> bool:
    """Whether an acquire was granted; some say it in a list."""
    return reply is None or (isinstance(reply, list) and reply[0] == 1)


class Stopped(Exception):
    """The last call of a scene has been reached."""


class Recorded(Scripts):
    """Plays a scene without its last call, and then that call in many ways.

    Attributes:
        script: The script of the last call.
        args: The number of its keys, and its keys and arguments.
    """

    script: Script
    args: tuple[Arg, ...]
    _calls = _last = 0

    async def _evalsha(self, script: Script, args: tuple[Arg, ...]) -> Any:
        self._calls += 1
        self.script, self.args = script, args
        if self._calls == self._last:
            raise Stopped
        return await super()._evalsha(script, args)

    async def _play(self, name: str) -> None:
        self._calls = 0
        await self.redis.flushdb()
        calls = SCENES[name](self)
        for index, call in enumerate(calls):
            try:
                await call
            except Stopped:
                for later in calls[index + 1 :]:
                    later.close()

    async def before(self, name: str) -> dict[bytes, Any]:
        """Play a scene in an empty database without its last call; return what is there."""
        if not self._last:
            await self._play(name)
            self._last = self._calls
        await self._play(name)
        return await everything(self.redis)

    async def call(self, *changed: tuple[int, Arg], by: Scripts | None = None) -> Any:
        """Make the last call, perhaps with changed arguments, or as somebody else."""
        args = [*self.args]
        for index, value in changed:
            args[index] = value
        return await Scripts._evalsha(by or self, self.script, tuple(args))

    def named(self, name: str) -> Arg:
        """Return the argument of a name; nothing if there is none."""
        args = dict(zip(self.script.args, self.args[1 + int(self.args[0]) :], strict=False))
        return args.get(name, b"")

    def numbers(self) -> list[tuple[str, int]]:
        """Return the arguments that are numbers, and where they are."""
        names = enumerate(self.script.args, 1 + int(self.args[0]))
        return [(name, index) for index, name in names if name in self.script.ints]


@pytest_asyncio.fixture
async def recorded(redis: Redis) -> AsyncIterator[Recorded]:
    """The scripts, for one scene."""
    yield await Recorded.on(redis)
    await redis.flushdb()


@each_scene
async def test_a_bad_number_is_refused(recorded: Recorded, redis: Redis, name: str) -> None:
    before = await recorded.before(name)
    script = recorded.script
    for number, index in recorded.numbers():
        if number in ("defers", "yields") and number == script.args[-1]:
            continue  # whether one goes last in the queue: 1, or whatever else
        full_name = f"{script.name} {number}"
        accepted = {"0"} if {number, full_name} & MAY_BE_ZERO else set()
        accepted |= {"-1"} if {number, full_name} & MAY_BE_NEGATIVE else set()
        for bad in {*BAD_MS, str(2**53), "007" if number == "start_units" else "x"} - accepted:
            with pytest.raises(ResponseError, match=r"must be|not a number|ids|too great"):
                await recorded.call((index, bad))
            assert await everything(redis) == before, (number, bad)


@each_scene
async def test_a_key_of_another_type_is_an_error(
    recorded: Recorded, redis: Redis, name: str
) -> None:
    await recorded.before(name)
    script = recorded.script
    for index, key in enumerate(() if script.is_batch else script.keys, 1):
        await recorded.before(name)
        foreign: Any = recorded.args[index]
        await redis.delete(foreign)
        if script.key_types[index - 1] == "string":
            await redis.lpush(foreign, "mine")
        else:
            await redis.set(foreign, "mine")
        before = await main_keys(redis)
        if key in OFTEN_IGNORED | IGNORES.get(name, IGNORES.get(script.name, set())):
            with suppress(ResponseError):
                await recorded.call()
        elif key == "clients" and not recorded.named("client"):
            # A queue that cannot be read keeps nobody from releasing or acquiring.
            await recorded.call()
            assert await redis.get(foreign) == b"mine"
        else:
            with pytest.raises(ResponseError, match=r"WRONGTYPE|is not a barrier"):
                await recorded.call()
            assert await main_keys(redis) == before, key


@pytest.fixture(scope="module")
def full_server(server_choice: str) -> Iterator[EmbeddedServer]:
    """A server for these tests."""
    with started_server(server_choice) as server:
        yield server


@each_scene
async def test_a_full_server_grants_nothing_and_does_all_else(
    full_server: EmbeddedServer, name: str
) -> None:
    async with Redis.from_url(full_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        recorded = await Recorded.on(redis)
        await recorded.before(name)
        reply = await recorded.call()
        after = {*await everything(redis)}
        before = await recorded.before(name)
        await redis.config_set("maxmemory", 1)
        again = await outcome(recorded.call())
        await redis.config_set("maxmemory", 0)
        if isinstance(again, str):
            assert re.search("OOM|maxmemory", again)
            assert recorded.script.name.endswith(".acquire")
            assert await everything(redis) == before
        else:
            assert {*await everything(redis)} == after
            assert type(again) is type(reply)
            assert again == reply or not isinstance(reply, int) or min(again, reply) > 1000


#: Commands without which these leave something half done, but grant and free nothing twice.
HALF_DONE = {
    "fair_lock.acquire": "zadd pexpire rpush zcard zrange lrem",
    "fair_lock.release": "zadd zrange zcard lrange lrem lpos",
    "fair_lock.force_release": "zadd zrange lrem",
    "read: re-entry": "hlen",
    "read_lock.release": "zrem",
    "read-write: reader of its write hold": "hlen",
    "read-write: downgrade": "hset",
    "semaphore: made by an acquire": "hset zadd zrange pexpire pttl set",
    "semaphore: acquire of what is over": "hset zadd",
    "semaphore.add": "exists",
    "semaphore.delete": "set pexpire",
    "semaphore.drain": "exists set pexpire",
    "permit.renew": "zrange pexpire pttl",
    "permit.set_lease": "zrange pttl",
    "semaphore.available": "pttl",
    "permits: made by an acquire": "zadd zrange pexpire pttl",
    "permits: acquire": "pttl",
    "permits: acquire of what is over": "zadd",
    "expirable_semaphore.available": "pttl",
    "expirable_semaphore.lease_left": "pttl",
    "expirable_semaphore.release": "set pexpire",
    "expirable_semaphore.release_all": "set pexpire",
    "expirable_semaphore.update_lease": "set zadd zrange pexpire pttl",
    "queue of semaphore: the called one comes": "zrem pttl",
    "queue of permits: the called one comes": "zrem pttl",
    "latch.count_down": "set pexpire",
    "latch.delete": "set pexpire",
    # Where units and admissions do not go together, the next acquire counts them again.
    "rate_limiter.acquire": "set incrby zadd pexpire pttl",
    "rate_limiter.undo": "zadd pexpire zremrangebyscore",
    "rate_limiter.set": "set pexpire del hset",
    "rate_limiter.delete": "set pexpire",
    "barrier.wait": "zadd pexpireat zremrangebyscore hset",
    "barrier.leave": "set hset pexpire pexpireat",
    "barrier.abort": "set hset pexpire",
    "barrier.reset": "set pexpire",
}


#: Scenes, and who of those that wait is alive.
WHO_IS_ALIVE = [(name, "client-[xyn]") for name in SCENES]
WHO_IS_ALIVE += [(name, "client-y") for name in SCENES if name.startswith("queue")]


@pytest.mark.parametrize(("name", "alive"), WHO_IS_ALIVE)
async def test_a_user_that_lacks_a_command_or_a_channel(
    recorded: Recorded, redis: Redis, poor_scripts: Scripts, forbid: Forbid, name: str, alive: str
) -> None:
    async with redis.pubsub() as listens:
        await listens.psubscribe(f"*:{alive}", f"*:{alive}:*")
        await recorded.before(name)
        async with Counted(redis) as counted:
            reply = await recorded.call()
        after, script = (await main_keys(redis)).keys(), recorded.script
        rules = {f"-{command}" for command in counted.calls if "eval" not in command}
        if "-publish" in rules:
            rules |= {"resetchannels", "own channels"}
        half_done = HALF_DONE.get(name, HALF_DONE.get(script.name, ""))
        must_be_done = QUEUE_ONLY if name.startswith("queue") and "release" in script.name else ()
        before = await recorded.before(name)
        for rule in rules - {f"-{command}" for command in half_done.split()}:
            if await everything(redis) != before:
                before = await recorded.before(name)
            main = await main_keys(redis)
            await forbid(rule, recorded.named("channel"))
            again = await outcome(recorded.call(by=poor_scripts))
            if isinstance(again, str):
                assert re.search(REFUSED, again), rule
                assert await main_keys(redis) == main, rule
                assert rule not in must_be_done
            elif is_grant(again) == is_grant(reply):
                assert (await main_keys(redis)).keys() == after, rule


ACQUIRES = [*(f"{kind}: first acquire" for kind in LOCKS), "read-write: second reader"]


@pytest.mark.parametrize(
    "name", [*ACQUIRES, "once: first acquire", "semaphore: first owner", "permits: acquire"]
)
async def test_who_may_not_release_is_granted_nothing(
    recorded: Recorded, redis: Redis, poor_scripts: Scripts, forbid: Forbid, name: str
) -> None:
    before = await recorded.before(name)
    index = 1 + int(recorded.args[0]) + recorded.script.args.index("needs")
    # Before Redis 7 nobody can be asked about commands.
    for rule, commands in [("resetchannels", ""), *([("-del", "DEL")] if recorded.modern else [])]:
        await forbid(rule)
        needs = f"{commands}:{str(recorded.named('channel'), 'ascii')}"  # type: ignore[arg-type]
        refused = await outcome(recorded.call((index, needs), by=poor_scripts))
        assert re.search("NOPERM|a release needs permission", str(refused))
        assert await everything(redis) == before
    assert "needs must be" in str(await outcome(recorded.call((index, "DEL"))))
