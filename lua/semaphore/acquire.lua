--! script   semaphore.acquire
--! version  2
--! keys     counter:string permits:zset counts:hash tombstone:string
--! args     owner:str units:int lease_ms:int start_units:int reclaims:int channel:str
--! returns  nil = granted | int >= 0 = busy, ms until a lease is over | -1 = busy, nobody knows how long | -3 = void
--! retry    safe: an owner that has units already is given no more

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.reclaim

-- The counter is Redisson's; beside it, who of us has how many units (`counts`) and until when
-- (`permits`), so that what a dead holder had comes back. Whoever asks looks for such first.
-- Only an entry there is ever given back, and only once, so neither a repetition nor a release
-- after the counter was deleted makes units out of nothing. With start_units >= 0 a semaphore
-- that is not there is made. A tombstone means this owner has left: see lock.acquire.
local counter, permits, counts, tombstone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, units, lease_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)
local start_units, reclaims, channel = integer(ARGV[4]), whole(ARGV[5], 1), ARGV[6]

if not (units and lease_ms and start_units and reclaims) then
  return redis.error_reply('ERR units, lease_ms, start_units and reclaims must be whole numbers')
end

local found = redis.call('GET', counter)
local before = integer(found or '0')
if not before then
  return redis.error_reply('ERR the counter is not a number')
end
local present = now()
local ends_at = string.format('%.0f', present + lease_ms)
local nobody = redis.call('EXISTS', permits, counts, tombstone) == 0
local has = not nobody and redis.call('HEXISTS', counts, owner) == 1
local known = not nobody and redis.call('ZCARD', permits) > 0
if found and has then
  redis.call('ZADD', permits, 'GT', ends_at, owner)
  return nil
end
if not nobody and redis.call('EXISTS', tombstone) == 1 then
  return -3
end
if not found and (known or has) then
  redis.call('DEL', permits, counts)
end
if not found and start_units < 0 then
  return -1
end

local value = before
if not found then
  redis.call('SET', counter, string.format('%.0f', start_units))
  value = start_units
elseif known then
  value = value + reclaim(counter, permits, counts, present, reclaims)
end
local granted = value >= units
if granted then
  value = value - units
  redis.call('ZADD', permits, ends_at, owner)
  redis.call('HSET', counts, owner, units)
  redis.call('INCRBY', counter, -units)
  local left = redis.call('PTTL', counter)
  if left >= 0 then
    redis.call('PEXPIRE', permits, math.max(left, 1))
    redis.call('PEXPIRE', counts, math.max(left, 1))
  elseif not nobody and redis.call('PTTL', permits) >= 0 then
    redis.call('PERSIST', permits)
    redis.call('PERSIST', counts)
  end
end
if value > before then
  announce(channel, value)
end
if granted then
  return nil
end
local nearest = redis.call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2]
return nearest and math.max(0, nearest - present) or -1
