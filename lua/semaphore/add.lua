#!lua flags=allow-oom
--! script   semaphore.add
--! version  10
--! keys     counter:string permits:zset counts:hash receipt:string total:string clients:zset
--! args     units:int creates:int channel:str calls:int receipt_ms:int
--! returns  int = how many are available now | nil = there is no such semaphore, and creates is 0
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.announce
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.note_number
--! include lib.permit_number
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

-- Adds units, perhaps fewer than none, to those of a semaphore; with `creates` to none where
-- there is no such semaphore. Unlike Redisson's SET, INCRBY keeps an expiry the key has. What is
-- taken comes back on top, and a counter that is not exact can be read by nobody.
local counter, permits, counts, receipt, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clients = KEYS[6]
local units, creates, channel = integer(ARGV[1]), whole(ARGV[2], 0), ARGV[3]
local calls, receipt_ms = whole(ARGV[4], 1), whole(ARGV[5], 1)

if not (units and creates and calls and receipt_ms) then
  return redis.error_reply('ERR units, creates, calls and receipt_ms must be whole numbers')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer)
end
local found = redis.call('GET', counter)
local value = integer(found or '0')
local sum = value and integer(string.format('%.0f', value + units))
local taken = redis.call('ZCARD', permits) + redis.call('HLEN', counts) > 0
local most = found and sum and permit_number(sum, counts) or sum
if not most or not integer(string.format('%.0f', most)) then
  return redis.error_reply('ERR the counter is not a number, or would be too great to be exact')
end

local changes = found or creates > 0
local reply = changes and string.format('%.0f', sum) or 'none'
local work = changes and offer_units(clients, channel, sum)
if found then
  -- These change nothing: a user that may not count is refused before the receipt is written. For
  -- the first see lib/remember.
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, 0)
end
leave_receipt(receipt, calls, reply, receipt_ms)
if not found and taken then
  redis.call('DEL', permits, counts)
end
if changes then
  redis.call('INCRBY', counter, string.format('%.0f', units))
  local noted = found and redis.call('EXISTS', total) == 1
  if noted then
    redis.pcall('INCRBY', total, string.format('%.0f', units))
  elseif not found then
    note_number(counter, total, units)
  end
end
keep_calls(clients, work)
return tonumber(reply)
