--! script   write_lock.acquire
--! version  7
--! keys     lock:hash tombstone:string version_key:string writers:zset
--! args     owner:str holds:int lease_ms:int version:int version_ms:int alive_ms:int channel:str needs:str
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void
--! retry    safe: states the hold count it wants, so twice is the same as once

-- As lock.acquire, in the hash of a read-write lock. `owner` is the writer's field: its owner
-- with ":write" behind it. Redisson adds the lease of a re-entry to what is left; the
-- longer of the two is enough, and cannot grow without end. A reader is refused like
-- everybody else: it would wait for itself, so it must not ask.
-- With `alive_ms` a writer that finds it busy counts as waiting for so long, and readers that
-- yield are not let in. It asks again before that, and gives up by a release with `waits` 1.
-- Readers that yielded to the last that waits were told how long it counts as waiting. If the lease
-- that it gets ends sooner, they are told to ask again.
local lock, tombstone, writers = KEYS[1], KEYS[2], KEYS[4]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local version, version_ms, alive_ms = ARGV[4], ARGV[5], ARGV[6]
local needs = ARGV[8]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

-- The short way, see read_lock.acquire.
local plain = holds == '1' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and #alive_ms < 16
  and (alive_ms == '0' and string.find(lease_ms, '^[1-9]%d*$')
    or string.find(lease_ms .. ' ' .. alive_ms, '^[1-9]%d* [1-9]%d*$'))
local waited = alive_ms ~= '0' and redis.call('ZSCORE', writers, owner)
if plain and not waited and redis.call('EXISTS', lock, tombstone) == 0 then
  redis.call('HSET', lock, 'mode', 'write', owner, '1')
  local done = redis.pcall('PEXPIRE', lock, lease_ms)
  if done == 1 then
    return nil
  end
  -- Not permitted: without a lease it would be held for ever.
  redis.call('DEL', lock)
  return done
end

local version_key, channel = KEYS[3], ARGV[7]
--! include lib.whole
--! include lib.superseded
--! include lib.now

holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)
version, version_ms, alive_ms = whole(version, 0), whole(version_ms, 0), whole(alive_ms, 0)

if not (holds and lease_ms and version and version_ms and alive_ms) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end
if superseded(version_key, version) then
  return -3
end

if holds == 1 and not (plain and not waited) and redis.call('EXISTS', lock, tombstone) == 0 then
  if waited then
    local present = now()
    local others = redis.call('ZCOUNT', writers, string.format('(%.0f', present), '+inf')
    if tonumber(waited) > present + lease_ms and others == 1 then
      redis.call('PUBLISH', channel, '2')
    end
    redis.call('ZREM', writers, owner)
  end
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HSET', lock, 'mode', 'write', owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock)
    return refused
  end
  return nil
end

local held = redis.call('HGET', lock, owner)
if held then
  local count = whole(held, 1)
  if not count then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  local left = redis.call('PTTL', lock)
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HSET', lock, owner, string.format('%.0f', math.max(count, holds)))
  -- Never shorten what an outer hold or a read of the same owner relies on.
  local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HSET', lock, owner, string.format('%.0f', count))
    return refused
  end
  return nil
end
if holds > 1 then
  return -2
end
if redis.call('EXISTS', lock) == 0 then
  return -3
end
if alive_ms > 0 and redis.call('EXISTS', tombstone) == 0 then
  local present, keep_ms = now(), math.max(alive_ms, redis.call('PTTL', writers))
  -- First, for its refusal: without an expiry the key would stay.
  redis.call('PEXPIRE', writers, string.format('%.0f', keep_ms))
  redis.call('ZREMRANGEBYSCORE', writers, '-inf', string.format('%.0f', present))
  redis.call('ZADD', writers, string.format('%.0f', present + alive_ms), owner)
  redis.call('PEXPIRE', writers, string.format('%.0f', keep_ms))
end
return redis.call('PTTL', lock)
