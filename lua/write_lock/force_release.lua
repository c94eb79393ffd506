#!lua flags=allow-oom
--! script   write_lock.force_release
--! version  1
--! keys     lock:hash receipt:string
--! args     channel:str receipt_ms:int
--! returns  1 = it was held for writing and is free now | 0 = it was free, or held for reading
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole

-- As lock.force_release. What the writer itself reads goes with it, as in Redisson.
local lock, receipt = KEYS[1], KEYS[2]
local channel, receipt_ms = ARGV[1], whole(ARGV[2], 1)

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local seen = redis.call('GET', receipt)
if seen then
  return tonumber(seen)
end

local freed = 0
if redis.call('HGET', lock, 'mode') == 'write' then
  freed = redis.call('DEL', lock)
  redis.call('PUBLISH', channel, '1')
end
redis.call('SET', receipt, freed, 'PX', receipt_ms)
return freed
