"""WRONGTYPE says which key has the wrong type, which type that is, and who may use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson, ScriptError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit
from tests.support.counting import Counted
from tests.support.streams import answered

Use = Callable[[Redisson], Awaitable[Any]]

#: What needs a hash under its name.
OF_HASHES: dict[str, Use] = {
    "lock": lambda client: client.get_lock("k").acquire(),
    "try_acquire": lambda client: client.get_lock("k").try_acquire(),
    "block": lambda client: client.get_lock("k").hold().__aenter__(),
    "fair": lambda client: client.get_fair_lock("k").acquire(timeout=60),
    "fenced": lambda client: client.get_fenced_lock("k").acquire(),
    "read": lambda client: client.get_read_write_lock("k").read_lock().acquire(),
    "write": lambda client: client.get_read_write_lock("k").write_lock().acquire(),
    "reads": lambda client: client.get_read_write_lock("k").read_lock().locked(),
    "inspect": lambda client: client.get_lock("k").inspect(),
    "force": lambda client: client.get_lock("k").force_release(),
    "multi": lambda client: client.get_multi_lock(client.get_lock("k")).acquire(),
    "rate": lambda client: client.get_rate_limiter("k", 2).acquire(),
    "rate_now": lambda client: client.get_rate_limiter("k", 2).try_acquire(),
    "rate_set": lambda client: client.get_rate_limiter("k").set_rate(2),
    "rate_seen": lambda client: client.get_rate_limiter("k").inspect(),
    "rate_deleted": lambda client: client.get_rate_limiter("k").delete(),
}
#: What needs a string under its name.
OF_STRINGS: dict[str, Use] = {
    "semaphore": lambda client: client.get_semaphore("k", 1).acquire(),
    "available": lambda client: client.get_semaphore("k").available(),
    "try_set_permits": lambda client: client.get_semaphore("k").set_permits(1),
    "ids": lambda client: client.get_permit_expirable_semaphore("k", 1).acquire(),
    "acquired": lambda client: client.get_permit_expirable_semaphore("k").acquired(),
    "latch": lambda client: client.get_latch("k", 1).wait(timeout=0),
    "count": lambda client: client.get_latch("k").count(),
    "count_down": lambda client: client.get_latch("k").count_down(),
    "set_count": lambda client: client.get_latch("k").try_set_count(1),
}
ALL = [("hash", use) for use in OF_HASHES.values()] + [("string", u) for u in OF_STRINGS.values()]
every = pytest.mark.parametrize(("wanted", "use"), ALL, ids=[*OF_HASHES, *OF_STRINGS])
HINT = "Use another name or a prefix"


@every
async def test_a_key_of_another_program(
    wanted: str, use: Use, client: Redisson, redis: Redis
) -> None:
    await redis.rpush("k", "job")
    await redis.expire("k", 600)
    with pytest.raises(ScriptError) as caught:
        await use(client)
    message = (
        f"WRONGTYPE 'k' is a Redis list, not a {wanted}: another program uses this key. {HINT}"
    )
    assert caught.value.message == message
    assert caught.value.key == "k"
    assert await redis.lrange("k", 0, -1) == [b"job"]


@every
async def test_a_key_of_another_primitive(
    wanted: str, use: Use, client: Redisson, redis: Redis
) -> None:
    lease = None
    if wanted == "hash":
        await client.get_latch("k").try_set_count(3)
        says = "is a Redis string, not a hash: a semaphore, a latch or another program"
    else:
        lease = await client.get_lock("k").acquire()
        says = "is a Redis hash, not a string: a lock or another program"
    with pytest.raises(ScriptError) as caught:
        await use(client)
    assert caught.value.message == f"WRONGTYPE 'k' {says} uses this key. {HINT}"
    if lease is None:
        await redis.delete("k")
    else:
        await lease.release()


@pytest.mark.parametrize("key", ["barrier", "arrivals", "released"])
async def test_a_key_beside_the_name(key: str, client: Redisson, redis: Redis) -> None:
    name = "{k}:redisson_py:" + key
    await redis.rpush(name, "job")
    await redis.expire(name, 600)
    wanted = "hash" if key == "barrier" else "zset"
    with pytest.raises(ScriptError) as caught:
        await client.get_barrier("k", 2).wait()
    assert caught.value.message == (
        f"WRONGTYPE {name!r} is a Redis list, not a {wanted}: another program uses this key. {HINT}"
    )


async def test_it_costs_nothing_where_the_type_is_right(client: Redisson, redis: Redis) -> None:
    await answered(client)
    async with Counted(redis) as counted:
        async with client.get_lock("k"):
            pass
        await client.get_lock("k").locked()
    assert "type" not in counted.calls


@pytest.mark.usefixtures("one_server")
async def test_who_may_not_ask_learns_what_redis_said(
    clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    client = clients(url=await allow("type"))
    await redis.rpush("k", "job")
    await redis.expire("k", 600)
    with pytest.raises(ScriptError, match="WRONGTYPE Operation against a key"):
        await client.get_lock("k").acquire()
