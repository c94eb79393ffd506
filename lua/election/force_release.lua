#!lua flags=allow-oom
--! script   election.force_release
--! version  1
--! keys     lock:hash receipt:string queue:list timeouts:zset waiters:zset
--! args     channel:str receipt_ms:int announced:str
--! returns  1 = it was held and is free now | 0 = it was free
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.remember
--! include lib.now
--! include lib.living_head
--! include lib.needs_scores
--! include lib.ends_nearer
--! include lib.drop_dead

-- As fair_lock.force_release; those that observe hear that nobody leads.
local lock, receipt, queue, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, receipt_ms, announced = ARGV[1], whole(ARGV[2], 1), ARGV[3]

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local seen = redis.call('GET', receipt)
if seen then
  return tonumber(seen)
end
-- Reading them as what they are refuses, with WRONGTYPE, to delete what is not a lock.
local freed = redis.call('HLEN', lock) > 0 and 1 or 0
redis.call('LLEN', queue)
redis.call('ZCARD', timeouts)
redis.call('ZCARD', waiters)

local present = now()
local head, dies, dead, saved, unknown = living_head(queue, timeouts, waiters, present)
if freed == 1 then
  redis.call('PUBLISH', announced, '0')
end
if head then
  local head_channel = channel .. ':' .. head
  redis.call('PUBLISH', head_channel, '0')
end
remember(receipt, freed, receipt_ms)
if freed == 1 then
  redis.call('DEL', lock)
end
if unknown then
  redis.call('ZADD', timeouts, string.format('%.0f', dies), head)
end
drop_dead(queue, timeouts, waiters, present, dead, saved)
return freed
