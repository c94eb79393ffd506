#!lua flags=allow-oom
--! script   semaphore.release
--! version  2
--! keys     counter:string permits:zset counts:hash tombstone:string
--! args     owner:str units:int channel:str tombstone_ms:int
--! returns  nil = nothing there | 0 = some given back | int > 0 = all given back, one more than the clients told
--! retry    safe: states the units to fall to; a repeated final release finds nothing

--! include lib.whole
--! include lib.integer
--! include lib.announce

-- Also the undo of an acquire; the tombstone then refuses one still on its way. What is not
-- there was given back already, by whoever found its lease over. Where the counter is gone, so
-- is what was taken from it. The order of writes lets a full server below Redis 7 take a final
-- release, see lock.release.
local counter, permits, counts, tombstone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, units = ARGV[1], whole(ARGV[2], 0)
local channel, tombstone_ms = ARGV[3], whole(ARGV[4], 0)

if not (units and tombstone_ms) then
  return redis.error_reply('ERR units and tombstone_ms must be whole numbers')
end

local found = redis.call('GET', counter)
local held = redis.call('HGET', counts, owner)
local back = held and (whole(held, 1) or -1) - units
if back and (back < -units or not integer(found or '0')) then
  return redis.error_reply('ERR the counter or the units of this owner are not a number')
end
redis.call('ZCARD', permits)

local reply = nil
if held and (units == 0 or not found) then
  redis.call('ZREM', permits, owner)
  redis.call('HDEL', counts, owner)
elseif held and back > 0 then
  redis.call('HSET', counts, owner, units)
end
if held and found then
  local told = back > 0 and announce(channel, redis.call('INCRBY', counter, back)) or 0
  reply = units == 0 and 1 + told or 0
end
if tombstone_ms > 0 then
  redis.call('SET', tombstone, '1', 'PX', tombstone_ms)
end
return reply
