"""A read-write lock's keys, expiries and messages are Redisson's: protocol sections 6 and 19.

As test_golden_vectors.py; the numbers in comments are those of section 19. What differs on
purpose is said where it is checked.
"""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py._time import now
from tests.lua.test_golden_vectors import keys, listening
from tests.support.leases import assert_left
from tests.support.scripts.calls import LEASE, Scripts, ask
from tests.support.scripts.read_write import ReadWriteScripts

#: Client ids and thread numbers, as Redisson writes them.
U1 = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:1"
U2 = "f9e8d7c6-b5a4-4392-8170-5f4e3d2c1b0a:2"

#: What Redisson does to the keys (sections 6.2 to 6.5). KEYS: the lock, the channel.
#: ARGV: the owner, its lease, the key of a hold without its number.
JAVA = {
    "read lock": """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
if not mode or mode == 'read' or redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then
  local i = redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('set', ARGV[3] .. i, 1, 'px', ARGV[2])
  redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[2]))
  return nil
end
return redis.call('pttl', KEYS[1])
""",
    "read unlock": """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then redis.call('publish', KEYS[2], 0) return nil end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
local i = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if i == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
redis.call('del', ARGV[3] .. (i + 1))
local tag = string.match(ARGV[3], '^{.-}')
local most = -3
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  local count = tonumber(redis.call('hget', KEYS[1], field))
  for number = count or 0, 1, -1 do
    local key = tag .. ':' .. field .. ':rwlock_timeout:' .. number
    most = math.max(most, redis.call('pttl', key))
  end
end
if redis.call('hlen', KEYS[1]) > 1 then
  if most > 0 then redis.call('pexpire', KEYS[1], most) return 0 end
  if mode == 'write' then return 0 end
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], 0)
return 1
""",
    "write lock": """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return nil
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1] .. ':write', 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2])
  return nil
end
return redis.call('pttl', KEYS[1])
""",
    "write unlock": """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then redis.call('publish', KEYS[2], 1) return nil end
if redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then return nil end
local count = redis.call('hincrby', KEYS[1], ARGV[1] .. ':write', -1)
if count > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end
redis.call('hdel', KEYS[1], ARGV[1] .. ':write')
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], 1)
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1
""",
}

CHANNEL = b"redisson_rwlock:{rw}"


async def java(rw: ReadWriteScripts, call: str, owner: str, lease_ms: int = LEASE) -> Any:
    """Do what Redisson does."""
    holds = b"{rw}:%b:rwlock_timeout:" % owner.encode()
    return await ask(rw.redis, "EVAL", JAVA[call], 2, rw.key, CHANNEL, owner, lease_ms, holds)


async def test_many_readers(rw: ReadWriteScripts, redis: Redis) -> None:
    began = now()
    first, second = (b"{rw}:%b:rwlock_timeout:%d" % (U1.encode(), n) for n in (1, 2))
    async with listening(redis, CHANNEL) as listener:
        # 1.
        assert await rw.read.acquire(U1, lease_ms=30000) is None
        assert await rw.fields() == {"mode": "read", U1: "1"}
        assert await redis.get(first) == b"1"
        assert await rw.read.acquire(U1, 2, lease_ms=5000) is None
        assert await rw.fields() == {"mode": "read", U1: "2"}
        assert await redis.get(second) == b"1"
        assert_left(await redis.pttl(second) / 1000, 5, began)
        assert_left(await rw.left() / 1000, 30, began)
        assert await rw.read.acquire(U2, lease_ms=60000) is None
        assert_left(await rw.left() / 1000, 60, began)
        refused = await rw.write.acquire(U1)
        assert refused is not None
        assert_left(refused / 1000, 60, began)
        # 2.
        assert await rw.read.release(U1, 1, lease_ms=30000) == 0
        assert await redis.exists(second) == 0
        assert_left(await rw.left() / 1000, 60, began)
        assert await rw.read.release(U1) == 0
        assert await rw.fields() == {"mode": "read", U2: "1"}
        assert await rw.read.release(U1) is None
        assert await listener.heard() == []
        assert await rw.read.release(U2) == 2  # freed, and one client told
        assert await listener.heard() == [b"00"]
        assert await keys(redis) == []
        assert await rw.read.release(U2) is None
        assert await listener.heard() == [b"0"]


async def test_one_writer_and_its_downgrade(rw: ReadWriteScripts, redis: Redis) -> None:
    began = now()
    async with listening(redis, CHANNEL) as listener:
        # 3.
        assert await rw.write.acquire(U1, lease_ms=30000) is None
        assert await rw.fields() == {"mode": "write", U1 + ":write": "1"}
        assert await rw.write.acquire(U1, 2, lease_ms=30000) is None
        assert await rw.fields() == {"mode": "write", U1 + ":write": "2"}
        # Redisson adds the leases; the longer one is what both holds need.
        assert_left(await rw.left() / 1000, 30, began)
        assert await rw.read.acquire(U1) is None
        assert await rw.fields() == {"mode": "write", U1 + ":write": "2", U1: "1"}
        assert await rw.write.release(U1, 1) == 0
        assert await listener.heard() == []
        assert await rw.write.release(U1) == 2
        assert await rw.fields() == {"mode": "read", U1: "1"}
        # Redisson says nothing, and waiting readers sleep on. Its listeners ignore a 2.
        assert await listener.heard() == [b"02"]
        assert await rw.read.release(U1) == 2
        assert await listener.heard() == [b"00"]
        assert await rw.write.acquire(U2) is None
        assert await rw.write.release(U2) == 2
        assert await listener.heard() == [b"01"]
        assert await keys(redis) == []
        assert await rw.write.release(U2) is None
        assert await listener.heard() == [b"1"]


async def test_a_lease_of_a_writer_that_ends_sooner_is_reported(
    rw: ReadWriteScripts, redis: Redis
) -> None:
    await rw.write.acquire(U1)
    await rw.write.acquire(U1, 2)
    async with listening(redis, CHANNEL) as listener:
        assert await rw.write.set_lease(U1, LEASE // 2) == 1
        assert await listener.heard() == [b"1"]
        assert await rw.write.release(U1, 1, LEASE // 4) == 0
        assert await listener.heard() == [b"1"]
        assert await rw.write.set_lease(U1, LEASE) == 1
        assert await rw.write.release(U1, 1, LEASE) == 0
        assert await listener.heard() == []


async def test_forced_releases_publish_the_mode_that_was_freed(
    rw: ReadWriteScripts, redis: Redis
) -> None:
    async with listening(redis, CHANNEL) as listener:
        await rw.read.acquire(U1)
        assert await rw.write.force_release("r1") == 0
        assert await listener.heard() == []
        assert await rw.read.force_release("r2") == 1
        assert await listener.heard() == [b"00"]
        await rw.write.acquire(U1)
        assert await rw.read.force_release("r3") == 0
        assert await listener.heard() == []
        assert await rw.write.force_release("r4") == 1
        assert await listener.heard() == [b"01"]


@pytest.mark.parametrize(
    ("name", "channel", "hold"),
    [
        (b"rw", b"redisson_rwlock:{rw}", b"{rw}:u:1:rwlock_timeout:1"),
        (b"{t}rw", b"redisson_rwlock:{t}rw", b"{t}rw:u:1:rwlock_timeout:1"),
        (b"a{b", b"redisson_rwlock:a{b", b"a{b:u:1:rwlock_timeout:1"),
        (b"a}b", b"redisson_rwlock:{a}b}", b"{a}b}:u:1:rwlock_timeout:1"),
        (b"%d\xff\x00", b"redisson_rwlock:{%d\xff\x00}", b"{%d\xff\x00}:u:1:rwlock_timeout:1"),
    ],
)
async def test_names_with_braces_and_bytes(
    scripts: Scripts, redis: Redis, name: bytes, channel: bytes, hold: bytes
) -> None:
    rw = ReadWriteScripts(scripts, key=name)
    async with listening(redis, channel) as listener:
        assert await rw.read.acquire("u:1") is None
        assert await keys(redis) == sorted([name, hold])
        assert await rw.read.renew("u:1") == 1
        assert await rw.read.release("u:1") == 2
        assert await keys(redis) == []
        assert await listener.heard() == [b"00"]


class TestWithRedisson:
    async def test_its_readers_and_ours_share_and_keep_each_others_leases(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        began = now()
        assert await java(rw, "read lock", U1, 60000) is None
        assert await rw.read.acquire(U2, lease_ms=5000) is None
        assert_left(await rw.left() / 1000, 60, began)
        assert await rw.write.acquire(U2) is not None
        assert (await java(rw, "write lock", U2) or 0) > 0
        assert await java(rw, "read unlock", U1, 60000) == 0
        assert_left(await rw.left() / 1000, 5, began)
        assert await java(rw, "read lock", U1, 1000) is None
        assert await java(rw, "read lock", U1, 60000) is None
        assert await rw.read.release(U2) == 0
        assert_left(await rw.left() / 1000, 60, began)
        assert await java(rw, "read unlock", U1) == 0
        assert await java(rw, "read unlock", U1) == 1
        assert await keys(redis) == []

    async def test_its_writer_and_ours_exclude_each_other(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        async with listening(redis, CHANNEL) as listener:
            assert await java(rw, "write lock", U1) is None
            for side in (rw.read, rw.write):
                assert (await side.acquire(U2) or 0) > 0
                assert await side.release(U2) is None
            assert await listener.heard() == []
            assert await java(rw, "write unlock", U1) == 1
            assert await listener.heard() == [b"1"]
            assert await rw.write.acquire(U2) is None
            for call in ("read lock", "write lock"):
                assert (await java(rw, call, U1) or 0) > 0
                assert await java(rw, call.replace("lock", "unlock"), U1) is None
            assert await rw.write.release(U2) == 2
            assert await keys(redis) == []

    async def test_its_downgrade_lets_our_readers_in_and_ours_lets_its_in(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        assert await java(rw, "write lock", U1) is None
        assert await java(rw, "read lock", U1) is None
        assert await java(rw, "write unlock", U1) == 1
        assert await rw.read.acquire(U2) is None
        assert await java(rw, "read unlock", U1) == 0
        assert await rw.read.release(U2) == 1
        assert await rw.write.acquire(U2) is None
        assert await rw.read.acquire(U2) is None
        assert (await java(rw, "read lock", U1) or 0) > 0
        assert await rw.write.release(U2) == 1
        assert await java(rw, "read lock", U1) is None
        assert await rw.read.release(U2) == 0
        assert await java(rw, "read unlock", U1) == 1
        assert await keys(redis) == []

    @pytest.mark.parametrize("who_leaves", ["ours", "theirs"])
    async def test_dead_readers_of_either_do_not_keep_the_lock(
        self, rw: ReadWriteScripts, redis: Redis, who_leaves: str
    ) -> None:
        await java(rw, "read lock", U1)
        await rw.read.acquire(U2)
        if who_leaves == "ours":
            await rw.end_holds(U1)
            assert await rw.read.release(U2) == 1
        else:
            await rw.end_holds(U2)
            assert await java(rw, "read unlock", U1) == 1
        assert await keys(redis) == []
