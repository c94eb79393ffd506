#!lua flags=allow-oom
--! script   barrier.leave
--! version  1
--! keys     barrier:hash arrivals:zset released:zset arrival:string
--! args     owner:str channel:str receipt_ms:int
--! returns  int >= 0 = nothing to leave: released, and this was its position | -1 = it does not wait
--! retry    safe: who has left does not wait; a repetition finds that

--! include lib.whole
--! include lib.break_barrier

-- The undo of an arrival: a party that leaves while others wait breaks the barrier for them.
-- The owner is declared gone, so that an arrival still on its way is refused.
local barrier, arrivals, released, arrival = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, channel, receipt_ms = ARGV[1], ARGV[2], whole(ARGV[3], 1)

if not receipt_ms then
  return redis.error_reply('ERR receipt_ms must be a positive integer')
end
local given = redis.call('GET', arrival) or ''
local generation, position = string.match(given, '^(%d+) (%d+)$')
redis.call('HGET', barrier, 'generation')
if redis.call('ZSCORE', released, generation or '0') then
  return tonumber(position)
end

if redis.call('ZSCORE', arrivals, owner) then
  break_barrier(barrier, arrivals, channel)
end
redis.call('SET', arrival, 'void', 'PX', receipt_ms)
return -1
