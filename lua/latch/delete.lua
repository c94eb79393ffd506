#!lua flags=allow-oom
--! script   latch.delete
--! version  4
--! keys     latch:string receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = deleted | 0 = it was not set
--! retry    safe: leaves a receipt, so that a repetition spares what was set since

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt

-- The message is Redisson's, whose waiters take it for "closed" and sleep on; ours look again. It
-- comes first because it may be refused, and then nothing has changed.
local latch, receipt = KEYS[1], KEYS[2]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
-- Reading as a string refuses, with WRONGTYPE, to delete what is not a latch.
local left = redis.call('GET', latch)
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

local reply = left and 1 or 0
if reply == 1 then
  redis.call('PUBLISH', channel, '1')
end
redis.call('DEL', latch)
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
return reply
