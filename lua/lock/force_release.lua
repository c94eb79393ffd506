#!lua flags=allow-oom
--! script   lock.force_release
--! version  5
--! keys     lock:hash receipt:string clients:zset
--! args     channel:str receipt_ms:int
--! returns  1 = it was held and is free now | 0 = it was free
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.remember
--! include lib.front
--! include lib.call_next
--! include lib.mark_called

-- Without the receipt a repetition would free the lock of whoever came next.
local lock, receipt, clients = KEYS[1], KEYS[2], KEYS[3]
local channel, receipt_ms = ARGV[1], whole(ARGV[2], 1)

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local seen = redis.call('GET', receipt)
if seen then
  return tonumber(seen)
end
-- Reading as a hash refuses, with WRONGTYPE, to delete what is not a lock.
local freed = redis.call('HLEN', lock) > 0 and 1 or 0

local next_one = nil
if freed == 1 then
  redis.call('PUBLISH', channel, '00')
  next_one = call_next(clients, channel)
end
remember(receipt, freed, receipt_ms)
if freed == 1 then
  redis.call('DEL', lock)
end
if next_one then
  mark_called(clients, next_one)
end
return freed
