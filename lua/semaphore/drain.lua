#!lua flags=allow-oom
--! script   semaphore.drain
--! version  6
--! keys     counter:string permits:zset counts:hash receipt:string total:string
--! args     calls:int receipt_ms:int reclaims:int
--! returns  int = how many were available, perhaps fewer than none; none are now
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.expired
--! include lib.give_back
--! include lib.receipt
--! include lib.leave_receipt

local counter, permits, counts, receipt, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local calls, receipt_ms, reclaims = whole(ARGV[1], 1), whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms and reclaims) then
  return redis.error_reply('ERR calls, receipt_ms and reclaims must be positive integers')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end
local found = redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
redis.call('HLEN', counts)

local over, back = {}, 0
if found then
  over, back = expired(permits, counts, now(), reclaims)
  value = value + back
  -- These change nothing: a user that may not count is refused before the receipt is written. For
  -- the first see lib/remember.
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, 0)
end
give_back(counter, permits, counts, over, back)
leave_receipt(receipt, calls, string.format('%.0f', value), receipt_ms)
if value ~= 0 then
  redis.call('INCRBY', counter, string.format('%.0f', 0 - value))
  if redis.call('EXISTS', total) == 1 then
    redis.pcall('INCRBY', total, string.format('%.0f', 0 - value))
  end
end
return value
