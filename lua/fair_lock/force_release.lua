#!lua flags=allow-oom
--! script   fair_lock.force_release
--! version  2
--! keys     lock:hash receipt:string queue:list timeouts:zset waiters:zset
--! args     channel:str receipt_ms:int
--! returns  1 = it was held and is free now | 0 = it was free
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.now
--! include lib.living_head

-- As lock.force_release; whoever waits keeps its place, and the head is told.
local lock, receipt, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, receipt_ms = ARGV[1], whole(ARGV[2], 1)

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local seen = redis.call('GET', receipt)
if seen then
  return tonumber(seen)
end
-- Reading them as what they are refuses, with WRONGTYPE, to delete what is not a lock.
redis.call('HLEN', lock)
redis.call('LLEN', queue)
redis.call('ZCARD', timeouts)
redis.call('ZCARD', waiters)

local freed = redis.call('DEL', lock)
local present = now()
local head = living_head(queue, timeouts, waiters, present)
if head then
  local line = channel .. ':' .. head
  redis.call('PUBLISH', line, '0')
end
redis.call('SET', receipt, freed, 'PX', receipt_ms)
return freed
