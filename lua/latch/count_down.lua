#!lua flags=allow-oom
--! script   latch.count_down
--! version  4
--! keys     latch:string receipt:string start:string
--! args     steps:int counts:int channel:str calls:int receipt_ms:int
--! returns  int = what is left; 0 = open
--! retry    safe: leaves a receipt, so that a repetition gets the first answer and counts nothing

--! include lib.whole
--! include lib.integer
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.remember

-- Never below 0, where the key goes: no key is count 0. Only the call that brings it there says so.
-- With `counts` an unset latch is set first, once for all calls with one `start`. The message comes
-- before the writes because it may be refused, and then nothing has changed.
local latch, receipt, start = KEYS[1], KEYS[2], KEYS[3]
local steps, counts, channel = whole(ARGV[1], 1), whole(ARGV[2], 0), ARGV[3]
local calls, receipt_ms = whole(ARGV[4], 1), whole(ARGV[5], 1)

if not (steps and counts and calls and receipt_ms) then
  return redis.error_reply('ERR steps, counts, calls and receipt_ms must be whole numbers')
end
local text = redis.call('GET', latch)
local before = integer(text or '0')
if not before then
  return redis.error_reply('ERR the count of this latch is not a number')
end
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or math.max(0, before)
end
local begins = counts > 0 and redis.call('EXISTS', start) == 0
if begins and not text then
  before = counts
end

local left = math.max(0, before - steps)
if left > 0 and not text then
  redis.call('PUBLISH', channel, '1')
elseif left == 0 and before > 0 then
  redis.call('PUBLISH', channel, '0')
end
if left == 0 then
  redis.call('DEL', latch)
end
leave_receipt(receipt, calls, string.format('%.0f', left), receipt_ms)
if begins then
  remember(start, '1', receipt_ms)
end
if left > 0 and text then
  redis.call('DECRBY', latch, string.format('%.0f', steps))
elseif left > 0 then
  redis.call('SET', latch, string.format('%.0f', left))
end
return left
