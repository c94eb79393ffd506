"""A gate: the shortest primitive that Redis keeps and that is a whole lock.

An example for whoever adds a primitive. A real one has its scripts in `lua/`, its commands in
`_redis/commands`, its class in `locks` and a `get_...` in `_client.py`.
"""

from __future__ import annotations

from typing import Self

from redisson_py import Redisson, _keys
from redisson_py._client import context_of
from redisson_py._keys import Name
from redisson_py._redis.commands.lock import LockCommands
from redisson_py._redis.commands.request import AcquireValues, Receipted
from redisson_py._redis.context import RedisContext
from redisson_py._redis.receipts import Receipts
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.source import Arg
from redisson_py._redis.view import ownership_of
from redisson_py.locks.lock import ServerLock

# The keys and arguments of lock.acquire, and `closed`: what `LockCommands.acquire` fills in.
ACQUIRE = source.parse("""\
--! script   gate.acquire
--! version  1
--! keys     lock:hash tombstone:string version_key:string clients:zset closed:string
--! args     owner:str holds:int lease_ms:int version:int version_ms:int needs:str channel:str client:str yields:int
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -3 = void
--! retry    safe: an owner that is inside stays inside

local lock, tombstone, closed, owner, lease_ms = KEYS[1], KEYS[2], KEYS[5], ARGV[1], ARGV[3]
if ARGV[6] ~= '' then
--! include lib.lacks
  local refused = lacks(ARGV[6], lock)
  if refused then
    return refused
  end
end
if redis.call('EXISTS', tombstone) == 1 then
  return -3
end
if redis.call('HEXISTS', lock, owner) == 0 then
  if redis.call('EXISTS', lock) == 1 then
    return redis.call('PTTL', lock)
  elseif redis.call('EXISTS', closed) == 1 then
    return -1
  end
  redis.call('HSET', lock, owner, '1')
end
if redis.call('PTTL', lock) < tonumber(lease_ms) then
  redis.call('PEXPIRE', lock, lease_ms)
end
return nil
""")  # noqa: E501

SET = source.parse("""\
--! script   gate.set
--! version  1
--! keys     closed:string receipt:string
--! args     closes:int channel:str calls:int receipt_ms:int
--! returns  1 = done
--! retry    safe: leaves a receipt, so that a repetition undoes no later call

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt
local closed, receipt, calls = KEYS[1], KEYS[2], whole(ARGV[3], 1)
if served(receipt, calls) then
  return 1
end
if ARGV[1] == '1' then
  redis.call('SET', closed, '1')
else
  redis.call('PUBLISH', ARGV[2], '0')
  redis.call('DEL', closed)
end
leave_receipt(receipt, calls, '1', whole(ARGV[4], 1))
return 1
""")


class GateCommands(LockCommands):
    """A lock that is not granted while `closed` is set."""

    __slots__ = ()

    kind = hold_kind = "gate"
    acquire_script = ACQUIRE

    @property
    def clients(self) -> None:
        """The queue of the clients that wait: none, its script lets nobody join one."""

    @property
    def closed(self) -> bytes:
        """The key that closes it."""
        return _keys.suffixed(self.key, b"redisson_py:closed")

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        return {**super()._own_args(request), "closed": self.closed}

    def set(self, closes: bool) -> Receipted:
        """Return what closes or opens it."""
        return SET, {"closed": self.closed, "closes": int(closes), "channel": self.channel}


class Gate(ServerLock):
    """One task at a time is inside, and nobody gets in while it is closed. Not reentrant."""

    def __init__(self, context: RedisContext, name: Name) -> None:
        commands = GateCommands(context.options.names.key(name))
        # Without `passes`: a hold that is passed on would go through a closed gate.
        ownership = ownership_of(context, name, commands, passes=False, reentrant=False)
        super().__init__(context, commands, ownership)
        self._set, self._receipts = commands.set, Receipts(context, commands.key)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name)

    async def close(self) -> None:
        """Let nobody in from now on; who is inside stays."""
        await self._receipts.run(self._set(True))

    async def open(self) -> None:
        """Let tasks in again."""
        await self._receipts.run(self._set(False))


def get_gate(client: Redisson, name: Name) -> Gate:
    """Return the gate `name`."""
    return Gate(context_of(client), name)
