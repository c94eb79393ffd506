#!lua flags=allow-oom
--! script   lock.adopt
--! version  1
--! keys     lock:hash tombstone:string adopted:string
--! args     owner:str giver:str secret:str lease_ms:int until_ms:int adopted_ms:int needs:str
--! returns  int > 0 = adopted, milliseconds left | -2 = not handed over, or freed before its lease was over | -3 = void | -4 = adopted by another owner | -5 = not there, its lease is over
--! retry    safe: a repetition finds the hold under its own name, and renews it

-- Gives a hold that lock.hand_over keeps to a new owner, which has it once. `adopted` is the tombstone
-- of the giver: first the secret, then who adopted it, so a late acquire of the giver is refused. A
-- tombstone of the new owner means that this request was undone. Never shorter than the hold was:
-- an adopter that needs less sets that itself, and those who wait hear of it.
local lock, tombstone, adopted = KEYS[1], KEYS[2], KEYS[3]
local owner, giver, secret, needs = ARGV[1], ARGV[2], ARGV[3], ARGV[7]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

--! include lib.whole
--! include lib.now

local lease_ms, until_ms, adopted_ms = whole(ARGV[4], 1), whole(ARGV[5], 1), whole(ARGV[6], 1)

if not (lease_ms and until_ms and adopted_ms) then
  return redis.error_reply('ERR lease_ms, until_ms and adopted_ms must be positive integers')
end
local ours = redis.call('HEXISTS', lock, owner) == 1
if not ours and redis.call('EXISTS', tombstone) == 1 then
  return -3
end
local mark = not ours and redis.call('GET', adopted)
local there = mark == secret and redis.call('HEXISTS', lock, giver) == 1
if not ours and not there then
  if mark and mark ~= '1' and mark ~= secret and mark ~= owner and redis.call('HEXISTS', lock, giver) == 0 then
    return -4
  end
  return now() < until_ms and -2 or -5
end
local left = math.max(redis.call('PTTL', lock), lease_ms)
if ours then
  redis.call('PEXPIRE', lock, string.format('%.0f', left))
  return left
end
-- These change nothing: what is refused, is refused before the first change.
redis.call('HDEL', lock, '')
redis.call('HINCRBY', lock, giver, 0)
redis.call('PEXPIRE', lock, string.format('%.0f', left))
redis.call('SET', adopted, owner, 'PX', string.format('%.0f', adopted_ms))
redis.call('HINCRBY', lock, owner, 1)
redis.call('HDEL', lock, giver)
return left
