"""What Redis has under a name and what is published about it, so that two sides can be compared.

Owners, permits and the name itself are renamed, and times are rounded: the same steps taken by
Redisson and by this library must look the same.
"""

from __future__ import annotations

import math
import re
from typing import Any

from redis.asyncio import Redis

from tests.support.monitor import Monitor

Seen = dict[str, Any]

_OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")
#: What only one side writes, for itself alone.
_BESIDE = re.compile(r"^(redisson_unlock_latch):|:(redisson_py:[a-z]+)")
#: Redisson's moment for a permit that never ends.
_NEVER = 922337203685477
#: Bytes of the id of a permit; an owner is longer.
_PERMIT = 16
#: Seconds: what is left is rounded up to these, so that it may take a while to look.
_STEP = 50


class Keyspace:
    """The keys and channels with a name in them.

    Attributes:
        beside: The kinds of keys seen that are for one side alone.
    """

    def __init__(self, redis: Redis, monitor: Monitor, name: str) -> None:
        self._redis = redis
        self._name = name
        self._owners: dict[str, str] = {}
        self._monitor = monitor
        self.beside: set[str] = set()

    async def meet(self, who: str) -> None:
        """Call the owner that has appeared since the last call by a name.

        A thread of Redisson's may appear again, a task of ours is another owner each time.
        """
        found = {owner for text in await self._texts() for owner in _OWNER.findall(text)}
        new = found - {*self._owners}
        assert len(new) <= 1
        self._owners.update(dict.fromkeys(new, who))

    async def waiting(self) -> int:
        """Return how many wait for a fair lock."""
        queue: Any = self._redis.llen(f"redisson_lock_queue:{{{self._name}}}")
        return int(await queue)

    async def look(self) -> Seen:
        """Return every key with its content and the seconds left, and what was published since."""
        seen: Seen = {}
        for key in await self._keys():
            name = self._renamed(key)
            if found := _BESIDE.search(name):
                self.beside.add(found[1] or found[2])
                continue
            left = await self._redis.pttl(key)
            # A key that is gone meanwhile was for one side alone, or about to expire.
            seen[name] = (await self._content(key), left if left < 0 else _rounded(left))
        messages = await self._monitor.messages(self._name)
        if messages:
            seen["messages"] = [(self._renamed(each), message) for each, message in messages]
        return seen

    async def _keys(self) -> list[bytes]:
        found: Any = await self._redis.keys(f"*{self._name}*")
        return sorted(found)

    async def _content(self, key: bytes) -> Any:
        redis: Any = self._redis
        match await redis.type(key):
            case b"string":
                return self._renamed(await redis.get(key))
            case b"hash":
                return {
                    self._renamed(field): self._renamed(value)
                    for field, value in sorted((await redis.hgetall(key)).items())
                }
            case b"list":
                return [self._renamed(each) for each in await redis.lrange(key, 0, -1)]
            case b"zset":
                seconds, micros = await redis.time()
                present = seconds * 1000 + micros // 1000
                return [
                    (
                        "a permit" if len(member) == _PERMIT else self._renamed(member),
                        "never" if score == _NEVER else _rounded(score - present),
                    )
                    for member, score in await redis.zrange(key, 0, -1, withscores=True)
                ]
        return None

    async def _texts(self) -> list[str]:
        found: list[str] = []
        for key in await self._keys():
            content = await self._content(key)
            found += [key.decode("latin-1"), repr(content)]
        return found

    def _renamed(self, raw: bytes | str) -> str:
        text = (raw if isinstance(raw, str) else raw.decode("latin-1")).replace(self._name, "N")
        return _OWNER.sub(lambda found: self._owners.get(found[0], found[0]), text)


def _rounded(milliseconds: float) -> int:
    return math.ceil(milliseconds / 1000 / _STEP) * _STEP
