--! script   lock.acquire
--! version  12
--! keys     lock:hash tombstone:string version_key:string clients:zset
--! args     owner:str holds:int lease_ms:int version:int version_ms:int needs:str channel:str client:str yields:int
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void | array = busy: ms after which to ask again (-1 = not known), clients before this one, 1 if the holder calls nobody
--! retry    safe: states the hold count it wants, so twice is the same as once

-- One field per owner, its value the hold count; the key's expiry is the lease.
-- An owner that counts on an earlier hold (holds > 1) and finds it gone has lost
-- it. A tombstone means this owner has left: an acquire that arrives after that
-- is a late duplicate, and granting it would make a hold that nobody knows of.
-- The version does the same for changes within one hold.
-- A `client` waits in the queue of clients, and hears on its own channel, `channel` and ':' and its
-- name, when it is called; without one nothing is left here. For the queue see lib/may_take.
local lock, tombstone, version_key, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local version, version_ms, needs = ARGV[4], ARGV[5], ARGV[6]
local channel, client, yields = ARGV[7], ARGV[8], ARGV[9]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

-- The short way: a new owner, a free lock, and nobody waits, or this client was called and answers.
-- It comes before the functions, because to make one, and to look at a number, costs about as much
-- as a command.
local plain = holds == '1' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
local free, called = plain and redis.call('EXISTS', lock, tombstone, clients) == 0, false
if not free and plain and client ~= '' and redis.call('EXISTS', lock, tombstone) == 0 then
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
  -- Before all other writes: behind one of them a full server would not refuse it.
  redis.call('HINCRBY', lock, owner, '1')
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

--! include lib.whole
--! include lib.superseded
--! include lib.front
--! include lib.call_next
--! include lib.mark_called
--! include lib.leave_queue
--! include lib.may_take
--! include lib.join_queue
--! include lib.owe_ours
--! include lib.busy

holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)
version, version_ms = whole(version, 0), whole(version_ms, 0)

if not (holds and lease_ms and version and version_ms) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end
if superseded(version_key, version) then
  return -3
end

if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0 then
  local may, look_ms = may_take(clients, channel, client, yields)
  if not may and client == '' then
    return 0
  elseif not may then
    return {look_ms, join_queue(clients, client), 0}
  end
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if client ~= '' and type(refused) ~= 'table' then
    refused = leave_queue(clients, channel, client)
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
  local added = math.max(count, holds) - count
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, string.format('%.0f', added))
  -- Never shorten what an outer hold of the same owner relies on.
  local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', count - math.max(count, holds)))
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
if client == '' then
  return redis.call('PTTL', lock)
end
-- A late acquire must not join the queue either.
if redis.call('EXISTS', tombstone) == 1 then
  return -3
end
return busy(lock, clients, client)
