#!lua flags=allow-oom
--! script   lock.release
--! version  5
--! keys     lock:hash tombstone:string version_key:string
--! args     owner:str holds:int lease_ms:int channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = not the owner | 0 = still held, or superseded | int > 0 = free, one more than the clients told
--! retry    safe: states the hold count to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.sooner

-- Also the undo of an acquire: fall to the count that was held before it. With
-- tombstone_ms the owner is declared gone, so that an acquire still on its way
-- is refused. Clients are told before the first write: a channel that this user
-- may not publish to is an error that changes nothing.
local lock, tombstone, version_key = KEYS[1], KEYS[2], KEYS[3]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 0), whole(ARGV[3], 1)
local channel, tombstone_ms = ARGV[4], whole(ARGV[5], 0)
local version, version_ms = whole(ARGV[6], 0), whole(ARGV[7], 0)

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
if held and holds == 0 then
  reply = 1 + redis.call('PUBLISH', channel, '0')
elseif held and sooner(lock, lease_ms) then
  redis.call('PUBLISH', channel, '0')
end
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)
if held and holds == 0 then
  redis.call('DEL', lock)
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
