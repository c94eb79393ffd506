#!lua flags=allow-oom
--! script   semaphore.release
--! version  12
--! keys     counter:string permits:zset counts:hash tombstone:string version_key:string clients:zset
--! args     owner:str units:int had_units:int channel:str tombstone_ms:int version:int version_ms:int
--! returns  nil = nothing there | 0 = some given back, or superseded | int > 0 = all given back, one more than the clients told | -1 = all given back, and a client that waits was called
--! retry    safe: states the units to fall to; a repeated final release finds nothing

-- Also the undo of an acquire; the tombstone then refuses one still on its way. What is not
-- there was given back already, by whoever found its lease over. Where the counter is gone, so
-- is what was taken from it. Where only the count of this owner has vanished, it had what it says.
-- The order of writes lets a full server below Redis 7 take it: see lib/remember. For versions see
-- lock.release, for the queue of clients lib/call_units.
local counter, permits, counts = KEYS[1], KEYS[2], KEYS[3]
local owner, units, had_units = ARGV[1], ARGV[2], ARGV[3]
local channel, tombstone_ms = ARGV[4], ARGV[5]
local version, version_ms = ARGV[6], ARGV[7]
local clients = KEYS[6]

-- The short way, see semaphore.acquire: an owner gives everything back, and nobody waits: the counter
-- counts twice, so it is there and the queue is not. The counter changes first, because it then says what is
-- free. What is refused here is taken back and left to the rest, which can do with less.
local held = redis.call('HGET', counts, owner)
if held and units == '0' and tombstone_ms == '0' and version == '0' and version_ms == '0'
  and held == had_units and #held < 7 and (held == '1' or string.find(held, '^[1-9]%d*$'))
  and redis.pcall('EXISTS', counter, counter, clients) == 2
then
  local value = redis.pcall('INCRBY', counter, held)
  if type(value) == 'number' then
    local told = value > 0 and value <= 2147483647
      and redis.pcall('PUBLISH', channel, string.format('%d', value))
    if type(told) == 'number' and type(redis.pcall('HDEL', counts, owner)) ~= 'table' then
      if type(redis.pcall('ZREM', permits, owner)) ~= 'table' then
        return 1 + told
      end
      redis.pcall('HSET', counts, owner, held)
    end
    redis.call('INCRBY', counter, '-' .. held)
  end
end

local found = redis.call('GET', counter)
local tombstone, version_key = KEYS[4], KEYS[5]
--! include lib.whole
--! include lib.integer
--! include lib.announce
--! include lib.superseded
--! include lib.remember
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

units, had_units, tombstone_ms = whole(units, 0), whole(had_units, 1), whole(tombstone_ms, 0)
version, version_ms = whole(version, 0), whole(version_ms, 0)

if not (units and had_units and tombstone_ms and version and version_ms) then
  return redis.error_reply('ERR units, had_units and tombstone_ms must be whole numbers')
end
if superseded(version_key, version) then
  return 0
end

local leased = redis.call('ZSCORE', permits, owner)
if leased and not held and units == 0 then
  held = string.format('%.0f', had_units)
end
local back = held and (whole(held, 1) or -1) - units
if back and (back < -units or not integer(found or '0')) then
  return redis.error_reply('ERR the counter or the units of this owner are not a number')
end

local reply, work, told = nil, nil, 0
if held and found then
  if back > 0 then
    work, told = offer_units(clients, channel, integer(found) + back)
  end
  reply = units == 0 and 1 + told or 0
  if reply > 0 and work and work.called[1] then
    reply = -1
  end
end
local drops = held and (units == 0 or not found)
if drops then
  -- These change nothing, but a user that may not do one of them is refused here.
  redis.call('ZREM', permits, '')
  redis.call('HDEL', counts, '')
  if found and tombstone_ms > 0 then
    redis.call('INCRBY', counter, 0)
  end
end
remember(tombstone, '1', tombstone_ms)
remember(version_key, version, version > 0 and version_ms or 0)
if drops then
  if found then
    redis.call('INCRBY', counter, string.format('%.0f', back))
  end
  redis.call('ZREM', permits, owner)
  redis.call('HDEL', counts, owner)
elseif held and back > 0 then
  redis.call('HDEL', counts, '')
  redis.call('INCRBY', counter, string.format('%.0f', back))
  local refused = redis.pcall('HSET', counts, owner, string.format('%.0f', units))
  if type(refused) == 'table' then
    redis.call('INCRBY', counter, string.format('%.0f', 0 - back))
    return refused
  end
end
keep_calls(clients, work)
return reply
