#!lua flags=allow-oom
--! script   expirable_semaphore.release_all
--! version  9
--! keys     counter:string permits:zset receipt:string clients:zset
--! args     ids:str units:int reclaims:int channel:str calls:int receipt_ms:int
--! returns  int > 0 = so many given back | 0 = none: one of them is not there, or its lease is over
--! retry    safe: leaves a receipt, so that a repetition gives the first answer

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.permit_id
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

-- Gives back all of the ids or none. Where nobody of ours waits the message is how many these were,
-- as Redisson's.
local counter, permits, receipt, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ids, units, reclaims = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)
local channel, calls, receipt_ms = ARGV[4], whole(ARGV[5], 1), whole(ARGV[6], 1)

if not (units and reclaims and calls and receipt_ms and #ids == 16 * units) then
  return redis.error_reply('ERR ids must be units times 16 bytes, the rest whole numbers')
end
if units > 10000 then
  return redis.error_reply('ERR units must be at most 10000')
end

local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end
local found = redis.call('GET', counter)
if not integer(found or '0') then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end

local present = now()
local alive = found and units or 0
local known = {}
for i = 1, units do
  local ends_at = redis.call('ZSCORE', permits, permit_id(ids, i))
  if not ends_at or tonumber(ends_at) <= present then
    alive = 0
  end
end
local back, work = 0, nil
if alive > 0 then
  local over, others = expired(permits, nil, present, reclaims)
  for i = 1, units do
    local id = permit_id(ids, i)
    back = back + (known[id] and 0 or 1)
    known[id] = true
  end
  announce(channel, others > 0 and integer(found) + others or 0)
  work = offer_units(clients, channel, integer(found) + others + back, back)
  give_back(counter, permits, nil, over, others)
  redis.call('ZREM', permits, '')
  redis.call('INCRBY', counter, string.format('%.0f', back))
  for i = 1, units do
    redis.call('ZREM', permits, permit_id(ids, i))
  end
end
keep_calls(clients, work)
leave_receipt(receipt, calls, string.format('%.0f', back), receipt_ms)
return back
