#!lua flags=allow-oom
--! script   expirable_semaphore.lease_left
--! version  9
--! keys     counter:string permits:zset clients:zset
--! args     id:str reclaims:int channel:str
--! returns  int > 0 = milliseconds left | -1 = it never ends | -2 = this id is not there, or its lease is over
--! retry    safe: what is given back is given back once

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.follow
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.offer_units

local counter, permits, clients = KEYS[1], KEYS[2], KEYS[3]
local id, reclaims, channel = ARGV[1], whole(ARGV[2], 1), ARGV[3]

if not reclaims then
  return redis.error_reply('ERR reclaims must be a positive integer')
end

local found = redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
local present = now()
local ends_at = tonumber(redis.call('ZSCORE', permits, id) or '0')

if found then
  local over, back = expired(permits, nil, present, reclaims)
  local work = back > 0 and offer_units(clients, channel, value + back)
  give_back(counter, permits, nil, over, back)
  keep_calls(clients, work)
  follow(counter, permits)
end
if not found or ends_at <= present then
  return -2
end
return ends_at == 922337203685477 and -1 or ends_at - present
