#!lua flags=allow-oom
--! script   expirable_semaphore.update_lease
--! version  2
--! keys     counter:string permits:zset
--! args     id:str lease_ms:int reclaims:int channel:str
--! returns  1 = set | 0 = this id is not there, or its lease is over
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.reclaim

-- As permit.set_lease, for an id that may be anybody's: it gives back first what is over.
local counter, permits = KEYS[1], KEYS[2]
local id, lease_ms = ARGV[1], whole(ARGV[2], 1)
local reclaims, channel = whole(ARGV[3], 1), ARGV[4]

if not (lease_ms and reclaims) then
  return redis.error_reply('ERR lease_ms and reclaims must be positive integers')
end

local found = redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number')
end
local present = now()
local ends_at = redis.call('ZSCORE', permits, id)
local alive = found and ends_at and tonumber(ends_at) > present

local back = found and reclaim(counter, permits, nil, present, reclaims) or 0
announce(channel, back > 0 and value + back or 0)
if not alive then
  return 0
end
redis.call('ZADD', permits, string.format('%.0f', present + lease_ms), id)
return 1
