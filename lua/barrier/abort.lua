#!lua flags=allow-oom
--! script   barrier.abort
--! version  4
--! keys     barrier:hash arrivals:zset receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = broken by this call | 0 = it was broken
--! retry    safe: leaves a receipt, so that a repetition spares what was mended since

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.barrier_state
--! include lib.break_barrier

-- Breaks the barrier until it is reset. One that a party has broken would mend itself; no more.
local barrier, arrivals, receipt = KEYS[1], KEYS[2], KEYS[3]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
local state = barrier_state(barrier)
redis.call('ZCARD', arrivals)
if not state then
  return redis.error_reply('ERR the hash at the key of this barrier is not a barrier')
end
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

local reply = state[3] and 0 or 1
if reply == 1 then
  break_barrier(barrier, arrivals, channel)
else
  redis.call('PERSIST', barrier)
end
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
return reply
