--! script   fenced_lock.acquire
--! version  12
--! keys     lock:hash tombstone:string token:string version_key:string clients:zset
--! args     owner:str holds:int lease_ms:int tokens:int version:int version_ms:int idle_ms:int needs:str channel:str client:str yields:int
--! returns  array: 1, first token (0 on re-entry) = granted | 0, ms = busy (-1 = no lease) | 0, and the array of lock.acquire = busy, in the queue | -2, 0 = lost | -3, 0 = void
--! retry    safe: states the hold count it wants; a repetition reads the range it took, or takes another if that is gone

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

-- As lock.acquire, with a range of fencing tokens for each outermost grant. The
-- counter is left at the end of the range, so Redisson's INCR goes on above it.
-- Tokens are max(last + 1, server microseconds): they keep growing when the
-- counter is lost, by restart, eviction or failover, as long as the clock is
-- not behind by more than that took. Below 2^53, where numbers in Lua stop
-- being exact, until the year 2255. With idle_ms > 0 the counter is gone so long
-- after the lease, and the next token rests on the clock alone.
local lock, tombstone, token, version_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clients = KEYS[5]
local owner, holds = ARGV[1], whole(ARGV[2], 1)
local lease_ms, tokens = whole(ARGV[3], 1), whole(ARGV[4], 1)
local version, version_ms, idle_ms = whole(ARGV[5], 0), whole(ARGV[6], 0), whole(ARGV[7], 0)
local needs, channel, client, yields = ARGV[8], ARGV[9], ARGV[10], ARGV[11]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

if not (holds and lease_ms and tokens and version and version_ms and idle_ms) then
  return redis.error_reply('ERR holds, lease_ms and tokens must be positive integers')
end
if superseded(version_key, version) then
  return {-3, 0}
end

local held = redis.call('HGET', lock, owner)
if not held and holds > 1 then
  return {-2, 0}
end
if not held and redis.call('EXISTS', lock) == 1 then
  if client == '' then
    return {0, redis.call('PTTL', lock)}
  end
  -- A late acquire must not join the queue either.
  if redis.call('EXISTS', tombstone) == 1 then
    return {-3, 0}
  end
  return {0, unpack(busy(lock, clients, client))}
end
if not held and redis.call('EXISTS', tombstone) == 1 then
  return {-3, 0}
end
local counter = redis.call('GET', token)
local last = whole(counter or '0', 0)
if not last or (held and not whole(held, 1)) then
  return redis.error_reply('ERR the token or the hold count is not a number')
end

if not held and redis.call('EXISTS', clients) == 1 then
  local may, look_ms = may_take(clients, channel, client, yields)
  if not may and client == '' then
    return {0, 0}
  elseif not may then
    return {0, look_ms, join_queue(clients, client), 0}
  end
  if client ~= '' then
    -- A key of another type is an error that uses up no token.
    redis.call('ZCARD', clients)
  end
end

local first = 0
if not held or (holds == 1 and not counter) then
  local time = redis.call('TIME')
  first = math.max(last + 1, time[1] * 1000000 + time[2])
  if first + tokens >= 9007199254740992 then
    return redis.error_reply('ERR the token counter is used up: greater numbers are not exact')
  end
  local issued = string.format('%.0f', first + tokens - 1)
  if idle_ms > 0 then
    redis.call('SET', token, issued, 'PX', string.format('%.0f', lease_ms + idle_ms))
  else
    redis.call('SET', token, issued)
  end
elseif holds == 1 then
  first = last - tokens + 1
end
-- Who may not read or set an expiry must not leave a lock without one.
local left = redis.call('PTTL', lock)
local count = whole(held or '0', 0)
local added = math.max(count, holds) - count
if held and idle_ms > 0 then
  redis.call('PEXPIRE', token, string.format('%.0f', math.max(left, lease_ms) + idle_ms))
end
if version > 0 and version_ms > 0 then
  redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
end
redis.call('HINCRBY', lock, owner, string.format('%.0f', added))
local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
if not held and client ~= '' and type(refused) ~= 'table' then
  refused = leave_queue(clients, channel, client)
end
if type(refused) == 'table' then
  if held then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', count - math.max(count, holds)))
  else
    redis.call('DEL', lock)
  end
  return refused
end
return {1, first}
