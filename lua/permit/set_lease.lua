#!lua flags=allow-oom
--! script   permit.set_lease
--! version  7
--! keys     permits:zset version_key:string counter:string counts:hash clients:zset
--! args     field:str lease_ms:int version:int version_ms:int idle_ms:int channel:str
--! returns  1 = set | 0 = not there, void, or its lease is over | 2 = superseded
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.superseded
--! include lib.remember
--! include lib.now
--! include lib.follow
--! include lib.keep
--! include lib.sooner_units

-- For the ZREM and for what is void see permit.renew, for idle_ms lib/keep. Where there are no
-- counts, the sorted set stands for them again. Who waits asks again where this permit ends sooner
-- than before.
local permits, version_key, counter, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clients = KEYS[5]
local field, lease_ms = ARGV[1], whole(ARGV[2], 1)
local version, version_ms, idle_ms = whole(ARGV[3], 0), whole(ARGV[4], 0), whole(ARGV[5], 0)
local channel = ARGV[6]

if not (lease_ms and version and version_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if superseded(version_key, version) then
  return 2
end
local present = now()
local ends_at = redis.call('ZSCORE', permits, field)
local has = counts == permits and ends_at or redis.call('HEXISTS', counts, field) == 1
if not has or (ends_at and tonumber(ends_at) <= present) or redis.call('EXISTS', counter) == 0 then
  return 0
end
if ends_at and tonumber(ends_at) > present + lease_ms then
  sooner_units(clients, channel)
end
remember(version_key, version, version > 0 and version_ms or 0)
redis.call('ZREM', permits, '')
redis.call('ZADD', permits, string.format('%.0f', present + lease_ms), field)
if idle_ms > 0 then
  keep(counter, permits, idle_ms)
  follow(counter, permits, counts)
end
return 1
