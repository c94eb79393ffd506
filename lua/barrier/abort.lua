#!lua flags=allow-oom
--! script   barrier.abort
--! version  1
--! keys     barrier:hash arrivals:zset receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = broken by this call | 0 = it was broken
--! retry    safe: leaves a receipt, so that a repetition spares what was mended since

--! include lib.whole
--! include lib.receipt
--! include lib.break_barrier

local barrier, arrivals, receipt = KEYS[1], KEYS[2], KEYS[3]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
local broken = redis.call('HGET', barrier, 'broken')
redis.call('ZCARD', arrivals)
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

if not broken then
  break_barrier(barrier, arrivals, channel)
end
local reply = broken and 0 or 1
redis.call('SET', receipt, string.format('%.0f %.0f', calls, reply), 'PX', receipt_ms)
return reply
