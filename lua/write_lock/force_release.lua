#!lua flags=allow-oom
--! script   write_lock.force_release
--! version  5
--! keys     lock:hash receipt:string clients:zset
--! args     channel:str receipt_ms:int
--! returns  1 = it was held for writing and is free now | 0 = it was free, or held for reading
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.remember
--! include lib.sides_front
--! include lib.call_sides
--! include lib.mark_sides

-- As lock.force_release. What the writer itself reads goes with it, as in Redisson.
local lock, receipt, clients = KEYS[1], KEYS[2], KEYS[3]
local channel, receipt_ms = ARGV[1], whole(ARGV[2], 1)

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local seen = redis.call('GET', receipt)
if seen then
  return tonumber(seen)
end

local freed = redis.call('HGET', lock, 'mode') == 'write' and 1 or 0
local called = {}
if freed == 1 then
  redis.call('PUBLISH', channel, '01')
  called = call_sides(clients, channel)
end
remember(receipt, freed, receipt_ms)
if freed == 1 then
  redis.call('DEL', lock)
end
mark_sides(clients, called)
return freed
