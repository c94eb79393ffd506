#!lua flags=allow-oom
--! script   election.proclaim
--! version  1
--! keys     lock:hash
--! args     owner:str value:str number:int announced:str
--! returns  1 = it leads, and this or a later value is published | 0 = it does not lead
--! retry    safe: a leader numbers its values, and one that comes late changes nothing

--! include lib.whole

local lock, owner, value = KEYS[1], ARGV[1], ARGV[2]
local number, announced = whole(ARGV[3], 1), ARGV[4]

if not number then
  return redis.error_reply('ERR number must be a positive integer')
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
local written = whole(redis.call('HGET', lock, 'number') or '0', 0)
if written and number < written then
  return 1
end
redis.call('PUBLISH', announced, '0')
redis.call('HSET', lock, 'value', value, 'number', string.format('%.0f', number))
return 1
