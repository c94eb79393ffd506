#!lua flags=allow-oom
--! script   expirable_semaphore.update_lease
--! version  11
--! keys     counter:string permits:zset version_key:string clients:zset
--! args     id:str lease_ms:int reclaims:int channel:str version:int version_ms:int idle_ms:int
--! returns  1 = set | 0 = this id is not there, or its lease is over | 2 = superseded
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.follow
--! include lib.keep
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units
--! include lib.sooner_units

-- As permit.set_lease, for an id that may be anybody's: it gives back first what is over.
local counter, permits, version_key, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, lease_ms = ARGV[1], whole(ARGV[2], 1)
local reclaims, channel = whole(ARGV[3], 1), ARGV[4]
local version, version_ms = whole(ARGV[5], 0), whole(ARGV[6], 0)
local idle_ms = whole(ARGV[7], 0)

if not (lease_ms and reclaims and version and version_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms and reclaims must be positive integers')
end
if superseded(version_key, version) then
  return 2
end

local found = redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
local present = now()
local ends_at = redis.call('ZSCORE', permits, id)
local alive = found and ends_at and tonumber(ends_at) > present

if found then
  local over, back = expired(permits, nil, present, reclaims)
  local work = back > 0 and offer_units(clients, channel, value + back)
  if alive and tonumber(ends_at) > present + lease_ms then
    sooner_units(clients, channel)
  end
  give_back(counter, permits, nil, over, back)
  keep_calls(clients, work)
  follow(counter, permits)
end
if not alive then
  return 0
end
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('ZADD', permits, string.format('%.0f', present + lease_ms), id)
if idle_ms > 0 then
  keep(counter, permits, idle_ms)
  follow(counter, permits)
end
return 1
