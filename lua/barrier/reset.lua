#!lua flags=allow-oom
--! script   barrier.reset
--! version  4
--! keys     barrier:hash arrivals:zset receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = it was broken, or somebody waited | 0 = it was fresh
--! retry    safe: leaves a receipt, so that a repetition spares who came since

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.barrier_state

-- A waiter finds its generation neither present nor released, which is as good as broken.
local barrier, arrivals, receipt = KEYS[1], KEYS[2], KEYS[3]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
-- Reading the keys as what they should be refuses to delete anything that is not a barrier.
local state = barrier_state(barrier)
redis.call('ZCARD', arrivals)
if not state then
  return redis.error_reply('ERR the hash at the key of this barrier is not a barrier')
end
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

local reply = math.min(1, redis.call('EXISTS', barrier, arrivals))
if reply == 1 then
  redis.call('PUBLISH', channel, '0')
end
redis.call('DEL', barrier, arrivals)
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
return reply
