#!lua flags=allow-oom
--! script   lock.set_lease
--! version  1
--! keys     lock:hash
--! args     owner:str lease_ms:int
--! returns  1 = set | 0 = not the owner
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole

local lock = KEYS[1]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
redis.call('PEXPIRE', lock, lease_ms)
return 1
