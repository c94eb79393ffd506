#!lua flags=allow-oom
--! script   expirable_semaphore.set
--! version  11
--! keys     counter:string permits:zset receipt:string clients:zset
--! args     units:int life_ms:int replaces:int reclaims:int channel:str calls:int receipt_ms:int
--! returns  1 = changed | 0 = there is such a semaphore, and it has so many | int <= -10 = there is one, replaces is 0, and it has other permits, -10 less this of them
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

-- Makes a semaphore unless there is one, which is gone after life_ms if that is not 0; with `replaces` an existing one gets as many units, all
-- told, taken ones included. What was taken from an earlier one of this name is void.
local counter, permits, receipt, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local units, life_ms, replaces = whole(ARGV[1], 0), whole(ARGV[2], 0), whole(ARGV[3], 0)
local reclaims, channel = whole(ARGV[4], 1), ARGV[5]
local calls, receipt_ms = whole(ARGV[6], 1), whole(ARGV[7], 1)

if not (units and life_ms and replaces and reclaims and calls and receipt_ms) then
  return redis.error_reply('ERR units, replaces and the rest must be whole numbers')
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
local taken = redis.call('ZCARD', permits)
local change = units
if found then
  change = replaces > 0 and units - value - taken or 0
end
local changed = (not found or change ~= 0) and 1 or 0
if found and replaces == 0 and value + taken ~= units then
  changed = -10 - math.max(0, value + taken)
end

local over, back = {}, 0
if found and replaces > 0 then
  over, back = expired(permits, nil, now(), reclaims)
  announce(channel, back > 0 and changed == 1 and value + back or 0)
  -- These change nothing: a user that may not count is refused before the receipt is written. For
  -- the first see lib/remember.
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, 0)
end
local free, work = found and value + back + change or units, nil
if changed == 1 or back > 0 then
  work = offer_units(clients, channel, free, changed == 1 and units or nil)
end
leave_receipt(receipt, calls, string.format('%.0f', changed), receipt_ms)
keep_calls(clients, work)
if not found then
  if taken > 0 then
    redis.call('DEL', permits)
  end
  if life_ms > 0 then
    redis.call('SET', counter, string.format('%.0f', units), 'PX', string.format('%.0f', life_ms))
  else
    redis.call('SET', counter, string.format('%.0f', units))
  end
elseif replaces > 0 then
  give_back(counter, permits, nil, over, back)
  redis.call('INCRBY', counter, string.format('%.0f', change))
end
return changed
