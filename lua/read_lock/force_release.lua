#!lua flags=allow-oom
--! script   read_lock.force_release
--! version  1
--! keys     lock:hash receipt:string
--! args     channel:str receipt_ms:int
--! returns  1 = somebody read and nobody does now | 0 = it was free, or held for writing
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole

-- As lock.force_release. The keys of the readers' holds end by themselves.
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
if redis.call('HGET', lock, 'mode') == 'read' then
  freed = redis.call('DEL', lock)
  redis.call('PUBLISH', channel, '0')
end
redis.call('SET', receipt, freed, 'PX', receipt_ms)
return freed
