#!lua flags=allow-oom
--! script   expirable_semaphore.available
--! version  9
--! keys     counter:string permits:zset clients:zset
--! args     reclaims:int channel:str
--! returns  array: how many are available, how many are taken; 0, 0 where there is no such semaphore
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
local reclaims, channel = whole(ARGV[1], 1), ARGV[2]

if not reclaims then
  return redis.error_reply('ERR reclaims must be a positive integer')
end

local found = redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
local taken = redis.call('ZCARD', permits)
if not found then
  return {0, 0}
end

local over, back = expired(permits, nil, now(), reclaims)
local work = back > 0 and offer_units(clients, channel, value + back)
give_back(counter, permits, nil, over, back)
keep_calls(clients, work)
follow(counter, permits)
return {value + back, taken - back}
