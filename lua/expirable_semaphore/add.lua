#!lua flags=allow-oom
--! script   expirable_semaphore.add
--! version  8
--! keys     counter:string permits:zset receipt:string clients:zset
--! args     units:int channel:str calls:int receipt_ms:int
--! returns  int = how many are available now
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.announce
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

-- Adds units, perhaps fewer than none. Where nobody of ours waits the message is how many these
-- were, as Redisson's; but INCRBY, unlike its SET, keeps an expiry the key has. What is taken comes
-- back on top, and a counter that is not exact can be read by nobody.
local counter, permits, receipt, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local units, channel = integer(ARGV[1]), ARGV[2]
local calls, receipt_ms = whole(ARGV[3], 1), whole(ARGV[4], 1)

if not (units and calls and receipt_ms) then
  return redis.error_reply('ERR units, calls and receipt_ms must be whole numbers')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end
local found = redis.call('GET', counter)
local value = integer(found or '0')
local sum = value and integer(string.format('%.0f', value + units))
local taken = redis.call('ZCARD', permits)
local most = sum and integer(string.format('%.0f', sum + (found and taken or 0)))
if not most then
  return redis.error_reply('ERR the counter is not a number, or would be too great to be exact')
end

local work = offer_units(clients, channel, sum, units)
if found then
  -- These change nothing: a user that may not count is refused before the receipt is written. For
  -- the first see lib/remember.
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, 0)
end
leave_receipt(receipt, calls, string.format('%.0f', sum), receipt_ms)
keep_calls(clients, work)
if not found and taken > 0 then
  redis.call('DEL', permits)
end
redis.call('INCRBY', counter, string.format('%.0f', units))
return sum
