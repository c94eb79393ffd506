--! script   write_lock.acquire
--! version  8
--! keys     lock:hash tombstone:string version_key:string writers:zset clients:zset
--! args     owner:str holds:int lease_ms:int version:int version_ms:int alive_ms:int channel:str needs:str client:str yields:int
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void | array = busy, in the queue: as lock.acquire
--! retry    safe: states the hold count it wants, so twice is the same as once

-- As lock.acquire, in the hash of a read-write lock. `owner` is the writer's field: its owner
-- with ":write" behind it. Redisson adds the lease of a re-entry to what is left; the
-- longer of the two is enough, and cannot grow without end. A reader is refused like
-- everybody else: it would wait for itself, so it must not ask.
-- With `alive_ms` a writer that finds it busy counts as waiting for so long, and readers that
-- yield are not let in. It asks again before that, and gives up by a release with `waits` 1.
-- Readers that yielded to the last that waits were told how long it counts as waiting. If the lease
-- that it gets ends sooner, they are told to ask again.
-- A `client` waits in the queue of clients: see lock.acquire, and lib/may_enter.
local lock, tombstone, writers, clients = KEYS[1], KEYS[2], KEYS[4], KEYS[5]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local version, version_ms, alive_ms = ARGV[4], ARGV[5], ARGV[6]
local channel, needs, client, yields = ARGV[7], ARGV[8], ARGV[9], ARGV[10]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

-- The short way, see lock.acquire.
local plain = holds == '1' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and #alive_ms < 16
  and (alive_ms == '0' and string.find(lease_ms, '^[1-9]%d*$')
    or string.find(lease_ms .. ' ' .. alive_ms, '^[1-9]%d* [1-9]%d*$'))
local waited = alive_ms ~= '0' and redis.call('ZSCORE', writers, owner)
local short, called = plain and not waited, false
local free = short and redis.call('EXISTS', lock, tombstone, clients) == 0
if not free and short and client ~= '' and redis.call('EXISTS', lock, tombstone) == 0 then
  local first = redis.call('ZRANGE', clients, '0', '3')
  called = first[1] == '>' .. client and first[2] == client
  free = called
  if called and first[4] then
    -- See lib/leave_queue.
    local own = channel .. ':' .. first[4]
    redis.call('PUBLISH', own, '2')
  end
end
if free then
  redis.call('HSET', lock, 'mode', 'write', owner, '1')
  local done = redis.pcall('PEXPIRE', lock, lease_ms)
  if called and done == 1 then
    done = redis.pcall('ZREM', clients, client, '>' .. client)
    done = done == 2 and 1 or done
  end
  if done == 1 then
    return nil
  end
  -- Not permitted: without a lease it would be held for ever.
  redis.call('DEL', lock)
  return done
end

local version_key = KEYS[3]
--! include lib.whole
--! include lib.superseded
--! include lib.now
--! include lib.sides_front
--! include lib.pass_over
--! include lib.call_sides
--! include lib.mark_sides
--! include lib.leave_sides
--! include lib.may_enter
--! include lib.join_sides
--! include lib.owe_ours
--! include lib.busy_side
--! include lib.sooner_for_sides

holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)
version, version_ms, alive_ms = whole(version, 0), whole(version_ms, 0), whole(alive_ms, 0)

if not (holds and lease_ms and version and version_ms and alive_ms) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end
if superseded(version_key, version) then
  return -3
end

free = holds == 1 and redis.call('EXISTS', lock, tombstone) == 0
local may, look_ms = free, -1
if free then
  may, look_ms = may_enter(clients, channel, client, yields, false, alive_ms > 0)
end
if may then
  if waited then
    local present = now()
    local others = redis.call('ZCOUNT', writers, string.format('(%.0f', present), '+inf')
    if tonumber(waited) > present + lease_ms and others == 1 then
      redis.call('PUBLISH', channel, '2')
      sooner_for_sides(clients, channel)
    end
    redis.call('ZREM', writers, owner)
  end
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HSET', lock, 'mode', 'write', owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if client ~= '' and type(refused) ~= 'table' then
    refused = leave_sides(clients, channel, client)
  end
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
if not free and redis.call('EXISTS', lock) == 0 then
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
if client == '' then
  return free and 0 or redis.call('PTTL', lock)
end
-- A late acquire must not join the queue either.
if redis.call('EXISTS', tombstone) == 1 then
  return -3
end
if free then
  return {look_ms, join_sides(clients, client, alive_ms > 0), 0}
end
return busy_side(lock, clients, client, alive_ms > 0)
