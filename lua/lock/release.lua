#!lua flags=allow-oom
--! script   lock.release
--! version  9
--! keys     lock:hash tombstone:string version_key:string clients:zset
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = not the owner | 0 = still held, or superseded | int > 0 = free, one more than the clients told | -1 = free, and a client that waits was called
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

-- Also the undo of an acquire: fall to the count that was held before it. With
-- tombstone_ms the owner is declared gone, so that an acquire still on its way
-- is refused. Clients are told before the first write: a channel that this user
-- may not publish to is an error that changes nothing. '00' wakes Redisson's, which reads a number;
-- of ours the first that waits is called, on its own channel.
local lock, tombstone, version_key, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local channel, tombstone_ms = ARGV[4], ARGV[5]
local version, version_ms = ARGV[6], ARGV[7]

-- The short way, see lock.acquire: a whole hold, and nobody of ours waits, or the first hears its
-- call. See lib/front and lib/mark_called.
if holds == '0' and tombstone_ms == '0' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
  and redis.call('HEXISTS', lock, owner) == 1
then
  local found = redis.pcall('ZRANGE', clients, '0', '1')
  local first = string.sub(found[1] or '', 1, 1) == '>' and found[2] or found[1]
  local own = first and channel .. ':' .. first
  if not first or (tonumber(redis.pcall('PUBLISH', own, '0')) or 0) > 0 then
    if not first then
      local told = redis.call('PUBLISH', channel, '00')
      redis.call('DEL', lock)
      return 1 + told
    end
--! include lib.wake_foreign
    wake_foreign(clients, channel)
    redis.call('DEL', lock)
    local time = redis.pcall('TIME')
    local moment = time[1] and string.format('-%.0f', time[1] * 1000000 + time[2])
    if moment then
      redis.pcall('ZADD', clients, moment, '>' .. first)
    end
    return -1
  end
end

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.sooner
--! include lib.front
--! include lib.call_next
--! include lib.mark_called
--! include lib.sooner_for

holds, lease_ms, tombstone_ms = whole(holds, 0), whole(lease_ms, 1), whole(tombstone_ms, 0)
version, version_ms = whole(version, 0), whole(version_ms, 0)

if not (holds and lease_ms and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR holds, lease_ms and tombstone_ms must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end

local held = redis.call('HGET', lock, owner)
local count = whole(held or '', 1)
if held and holds > 0 and not count then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
local reply = held and 0 or nil
local next_one = nil
if held and holds == 0 then
  reply = 1 + redis.call('PUBLISH', channel, '00')
  next_one = call_next(clients, channel)
  reply = next_one and -1 or reply
elseif held and sooner(lock, lease_ms) then
  sooner_for(clients, channel)
end
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)
if held and holds == 0 then
  redis.call('DEL', lock)
  if next_one then
    mark_called(clients, next_one)
  end
elseif held then
  local removed = count - math.min(count, holds)
  if removed > 0 then
    -- Removes nothing: see lib/remember.
    redis.call('HDEL', lock, '')
    redis.call('HINCRBY', lock, owner, string.format('%.0f', 0 - removed))
  end
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', removed))
    return refused
  end
end
return reply
