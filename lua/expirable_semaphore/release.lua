#!lua flags=allow-oom
--! script   expirable_semaphore.release
--! version  10
--! keys     counter:string permits:zset tombstone:string receipt:string clients:zset
--! args     ids:str units:int channel:str tombstone_ms:int calls:int receipt_ms:int
--! returns  nil = none of these is there | 0 = given back, but some lease was over | int > 0 = given back, one more than the clients told | -1 = given back, and a client that waits was called
--! retry    safe: an id is given back once; with calls > 0 a receipt keeps the first answer

-- Gives back those of the ids that are there. Also the undo of an acquire: the tombstone, which
-- stands for its whole list, then refuses one still on its way. Where the counter is gone, so is
-- what was taken from it.
local counter, permits, clients = KEYS[1], KEYS[2], KEYS[5]
local ids, units, channel = ARGV[1], ARGV[2], ARGV[3]
local tombstone_ms, calls, receipt_ms = ARGV[4], ARGV[5], ARGV[6]

-- The short way, see semaphore.release: one permit whose lease is not over, and nobody waits.
local plain = units == '1' and #ids == 16 and tombstone_ms == '0' and calls == '0'
  and #receipt_ms < 16 and string.find(receipt_ms, '^[1-9]%d*$')
local found = plain and redis.call('GET', counter)
local ends_at = found and redis.call('ZSCORE', permits, ids)
if ends_at and #found < 7 and (found == '0' or string.find(found, '^[1-9]%d*$'))
  and redis.pcall('EXISTS', clients) == 0
then
  local time = redis.call('TIME')
  if tonumber(ends_at) > time[1] * 1000 + math.floor(time[2] / 1000) then
    local value = found == '0' and '1' or string.format('%d', found + 1)
    local told = redis.call('PUBLISH', channel, value)
    if type(redis.pcall('INCRBY', counter, '1')) ~= 'table' then
      if type(redis.pcall('ZREM', permits, ids)) ~= 'table' then
        return 1 + told
      end
      redis.call('INCRBY', counter, '-1')
    end
  end
end

local tombstone, receipt = KEYS[3], KEYS[4]
--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.permit_id
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.remember
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

units, tombstone_ms = whole(units, 1), whole(tombstone_ms, 0)
calls, receipt_ms = whole(calls, 0), whole(receipt_ms, 1)

if not (units and tombstone_ms and calls and receipt_ms and #ids == 16 * units) then
  return redis.error_reply('ERR ids must be units times 16 bytes, the rest whole numbers')
end
if units > 10000 then
  return redis.error_reply('ERR units must be at most 10000')
end

local answer = calls > 0 and served(receipt, calls)
if answer then
  return tonumber(answer)
end
found = found or redis.call('GET', counter)
if not integer(found or '0') then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end

local present = now()
local there, over = {}, 0
local known = {}
for i = 1, units do
  local id = permit_id(ids, i)
  local ends_at = not known[id] and redis.call('ZSCORE', permits, id)
  if ends_at then
    known[id] = true
    there[#there + 1] = id
    over = over + (tonumber(ends_at) <= present and 1 or 0)
  end
end
local back = #there
local reply, work, told = nil, nil, 0
if found and back > 0 then
  work, told = offer_units(clients, channel, integer(found) + back)
  reply = over == 0 and 1 + told or 0
  if reply > 0 and work and work.called[1] then
    reply = -1
  end
end
if back > 0 then
  -- These change nothing, but a user that may not do one of them is refused here.
  redis.call('ZREM', permits, '')
  if found and tombstone_ms > 0 then
    redis.call('INCRBY', counter, 0)
  end
end
remember(tombstone, '1', tombstone_ms)
if back > 0 then
  if found then
    redis.call('INCRBY', counter, string.format('%.0f', back))
  end
  for i = 1, units do
    if there[i] then
      redis.call('ZREM', permits, there[i])
    end
  end
end
keep_calls(clients, work)
if calls > 0 then
  local text = reply and string.format('%.0f', reply) or 'none'
  leave_receipt(receipt, calls, text, receipt_ms)
end
return reply
