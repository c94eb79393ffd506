#!lua flags=allow-oom
--! script   election.leader
--! version  1
--! keys     lock:hash
--! args
--! returns  array: the token of the leader, its value, and the milliseconds left of its lease (-1 = no lease); nothing = nobody leads
--! retry    safe: reads only

-- A lock of the same name may be held, which has neither: its holder is no leader.
local lock = KEYS[1]

local found = redis.call('HMGET', lock, 'token', 'value')
if not (found[1] and found[2]) then
  return {}
end
return {found[1], found[2], redis.call('PTTL', lock)}
