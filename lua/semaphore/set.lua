#!lua flags=allow-oom
--! script   semaphore.set
--! version  12
--! keys     counter:string permits:zset counts:hash receipt:string total:string clients:zset
--! args     units:int life_ms:int replaces:int reclaims:int channel:str calls:int receipt_ms:int
--! returns  1 = made or changed | 0 = there is such a semaphore, and replaces is 0 or it has so many | int <= -10 = there is one, and it has other permits, -10 less this of them
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
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

-- Makes a semaphore unless there is one; with life_ms > 0 it is gone after that time. What was
-- taken from an earlier one of this name is void. With `replaces` an existing one gets as many
-- units, all told: those that are recorded as taken count, those that Redisson took cannot. A lease
-- whose units have vanished is void. Its expiry stays. What every holder has must be added up, so
-- this takes longer the more there are.
local counter, permits, counts, receipt, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clients = KEYS[6]
local units, life_ms, replaces = whole(ARGV[1], 0), whole(ARGV[2], 0), whole(ARGV[3], 0)
local reclaims, channel = whole(ARGV[4], 1), ARGV[5]
local calls, receipt_ms = whole(ARGV[6], 1), whole(ARGV[7], 1)

if not (units and life_ms and replaces and reclaims and calls and receipt_ms) then
  return redis.error_reply('ERR units, life_ms, replaces and the rest must be whole numbers')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end
local found = redis.call('GET', counter)
local leases, holders = redis.call('ZCARD', permits), redis.call('HLEN', counts)
replaces = found and replaces > 0

local change, over, back, free = 0, {}, 0, 0
if replaces then
  local value = integer(found)
  if not value then
    return redis.error_reply('ERR the counter is not a number, or too great to be exact')
  end
  local sum = permit_number(value, counts)
  change = units - sum
  if not (integer(string.format('%.0f', sum)) and integer(string.format('%.0f', value + change))) then
    return redis.error_reply('ERR the number of permits is too great to be exact')
  end
  local owners = leases > holders and redis.call('ZRANGE', permits, '0', '-1') or {}
  for _, owner in ipairs(owners) do
    if redis.call('HEXISTS', counts, owner) == 0 then
      redis.call('ZREM', permits, owner)
    end
  end
  over, back = expired(permits, counts, now(), reclaims)
  free = change + back > 0 and value + change + back or 0
  -- These change nothing: a user that may not count is refused before the receipt is written. For
  -- the first see lib/remember.
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, 0)
elseif not found then
  free = units
end
local work = offer_units(clients, channel, free)
local changed = (not found or change ~= 0) and 1 or 0
if found and not replaces and integer(found) then
  local number = permit_number(integer(found), counts, total, units)
  changed = number ~= units and -10 - math.max(0, number) or 0
end
leave_receipt(receipt, calls, string.format('%.0f', changed), receipt_ms)
keep_calls(clients, work)
if replaces then
  give_back(counter, permits, counts, over, back)
  if change ~= 0 then
    redis.call('INCRBY', counter, string.format('%.0f', change))
  end
  note_number(counter, total, units)
end
if found then
  return changed
end
if leases + holders > 0 then
  redis.call('DEL', permits, counts)
end
if life_ms > 0 then
  redis.call('SET', counter, string.format('%.0f', units), 'PX', string.format('%.0f', life_ms))
else
  redis.call('SET', counter, string.format('%.0f', units))
end
note_number(counter, total, units)
return 1
