#!lua flags=allow-oom
--! script   semaphore.set
--! version  3
--! keys     counter:string permits:zset counts:hash receipt:string
--! args     units:int life_ms:int channel:str calls:int receipt_ms:int
--! returns  1 = made | 0 = there is such a semaphore
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.announce
--! include lib.receipt

-- Makes a semaphore unless there is one; with life_ms > 0 it is gone after that time. What was
-- taken from an earlier one of this name is void.
local counter, permits, counts, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local units, life_ms, channel = whole(ARGV[1], 0), whole(ARGV[2], 0), ARGV[3]
local calls, receipt_ms = whole(ARGV[4], 1), whole(ARGV[5], 1)

if not (units and life_ms and calls and receipt_ms) then
  return redis.error_reply('ERR units, life_ms, calls and receipt_ms must be whole numbers')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end
local made = redis.call('GET', counter) and 0 or 1
local taken = redis.call('ZCARD', permits) + redis.call('HLEN', counts) > 0

if made == 1 then
  announce(channel, units)
end
redis.call('SET', receipt, string.format('%.0f %.0f', calls, made), 'PX', receipt_ms)
if made == 0 then
  return 0
end
if taken then
  redis.call('DEL', permits, counts)
end
if life_ms > 0 then
  redis.call('SET', counter, string.format('%.0f', units), 'PX', life_ms)
else
  redis.call('SET', counter, string.format('%.0f', units))
end
return 1
