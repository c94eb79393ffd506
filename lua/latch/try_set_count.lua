#!lua flags=allow-oom
--! script   latch.try_set_count
--! version  5
--! keys     latch:string receipt:string
--! args     counts:int expire_ms:int channel:str calls:int receipt_ms:int
--! returns  1 = set | 0 = it was set already
--! retry    safe: leaves a receipt, so that a repetition gets the first answer and sets nothing

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt

-- No key is count 0: the latch is open. The message closes the gate of Redisson's waiters. It comes
-- first because it may be refused, and then nothing has changed. With `expire_ms` above 0 the key
-- expires: then the latch is unset, as if it was deleted. Nobody is told of that: latch.count says
-- when it will be.
local latch, receipt = KEYS[1], KEYS[2]
local counts, expire_ms, channel = whole(ARGV[1], 1), whole(ARGV[2], 0), ARGV[3]
local calls, receipt_ms = whole(ARGV[4], 1), whole(ARGV[5], 1)

if not (counts and expire_ms and calls and receipt_ms) then
  return redis.error_reply('ERR counts, expire_ms, calls and receipt_ms must be whole numbers')
end
local left = redis.call('GET', latch)
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

local reply = left and 0 or 1
if reply == 1 then
  redis.call('PUBLISH', channel, '1')
end
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
if reply == 1 and expire_ms > 0 then
  redis.call('SET', latch, string.format('%.0f', counts), 'PX', string.format('%.0f', expire_ms))
elseif reply == 1 then
  redis.call('SET', latch, string.format('%.0f', counts))
end
return reply
