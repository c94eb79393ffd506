--! script   once.acquire
--! version  2
--! keys     lock:hash tombstone:string token:string record:hash
--! args     owner:str lease_ms:int idle_ms:int needs:str
--! returns  array: 1, token = granted | 0, ms = busy (-1 = no lease) | 2, token, b or s, result = done | -3, 0 = void
--! retry    safe: an owner that runs goes on running, and reads the token that it took

--! include lib.whole

-- As fenced_lock.acquire for one hold, but what is done is not granted again: the record says with which token it
-- was done, whether its result is bytes or text, and the result. It comes before the lock, so nobody
-- waits for the end of the block in which it was completed. There is no queue of clients: when
-- it is done, all that wait leave. The counter of tokens stays idle_ms longer than the lease.
local lock, tombstone, token, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)
local idle_ms, needs = whole(ARGV[3], 1), ARGV[4]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end
if not (lease_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms and idle_ms must be positive integers')
end

local held = redis.call('HEXISTS', lock, owner) == 1
if not held then
  local done = redis.call('HMGET', record, 'token', 'kind', 'result')
  if done[1] and done[2] and done[3] then
    return {2, whole(done[1], 0) or 0, done[2], done[3]}
  elseif redis.call('EXISTS', tombstone) == 1 then
    return {-3, 0}
  elseif redis.call('EXISTS', lock) == 1 then
    return {0, redis.call('PTTL', lock)}
  end
end

local counter = redis.call('GET', token)
local last = whole(counter or '0', 0)
if not last then
  return redis.error_reply('ERR the token is not a number')
end
local taken = last
if not held or not counter then
  local time = redis.call('TIME')
  taken = math.max(last + 1, time[1] * 1000000 + time[2])
  if taken >= 9007199254740992 then
    return redis.error_reply('ERR the token counter is used up: greater numbers are not exact')
  end
end
-- Who may not read or set an expiry must not leave a lock without one.
local left = redis.call('PTTL', lock)
local life = string.format('%.0f', math.max(left, lease_ms) + idle_ms)
redis.call('SET', token, string.format('%.0f', taken), 'PX', life)
if not held then
  redis.call('HSET', lock, owner, '1')
end
local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
if type(refused) == 'table' then
  if not held then
    redis.call('DEL', lock)
  end
  return refused
end
return {1, taken}
