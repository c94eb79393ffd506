#!lua flags=allow-oom
--! script   permit.set_lease
--! version  1
--! keys     permits:zset
--! args     mark:str lease_ms:int
--! returns  1 = set | 0 = not there, or its lease is over
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.now

-- For the ZREM see permit.renew.
local permits = KEYS[1]
local mark, lease_ms = ARGV[1], whole(ARGV[2], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
local present = now()
local ends_at = redis.call('ZSCORE', permits, mark)
if not ends_at or tonumber(ends_at) <= present then
  return 0
end
redis.call('ZREM', permits, '')
redis.call('ZADD', permits, string.format('%.0f', present + lease_ms), mark)
return 1
