#!lua flags=allow-oom
--! script   barrier.wait
--! version  5
--! keys     barrier:hash arrivals:zset released:zset arrival:string
--! args     owner:str parties:int generation:str lease_ms:int receipt_ms:int channel:str
--! returns  array: 1 released, 0 waiting, -1 broken, -2 other parties, -3 void | position | generation | ms
--! retry    safe: an owner arrives once; a repetition finds its arrival and looks again

--! include lib.whole
--! include lib.barrier_state
--! include lib.break_barrier

-- Arrives (generation 0), or looks again. A generation is named after the moment of its first
-- arrival. While parties wait, a hash has its name and their number, and a sorted set has when
-- each arrival ends unless its owner looks again: one that has ended is a party that died, and
-- breaks the barrier. Both keys expire with the last end of all, so a barrier that every party has
-- left without a word is fresh then. A broken one stays broken as long as that, and for one lease
-- after the look of a party that found it broken.
--
-- The last party to come ends the generation and leaves its name among those released, at least
-- as long as one of its parties may look; a name that is neither there nor the present one was
-- broken, reset or lost.
--
-- Where the clock was set back, or does not tell two moments apart, a new generation takes the next
-- name that none of those released has.
--
-- An owner is new for each wait, and what it was given is kept under its name. So the last
-- arrival, repeated, is none of the next generation, and one that comes late is void. Where that has
-- vanished, the hash has the position of one that waits, and `released` the last of a generation.
-- Every key has an expiry, except the broken field of an abort.
--
-- In the reply: position -1 is not known, with -2 it is the number of parties; ms is how long
-- until another's arrival ends, -1 if there is none.
local barrier, arrivals, released, arrival = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, parties, generation = ARGV[1], whole(ARGV[2], 1), ARGV[3]
local lease_ms, receipt_ms, channel = whole(ARGV[4], 1), whole(ARGV[5], 1), ARGV[6]

if not (parties and whole(generation, 0) and lease_ms and receipt_ms) then
  return redis.error_reply('ERR parties, generation, lease_ms and receipt_ms must be whole numbers')
end

local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local given = redis.call('GET', arrival)
local state = barrier_state(barrier)
local first = redis.call('ZRANGE', arrivals, 0, 0, 'WITHSCORES')
local last = redis.call('ZRANGE', arrivals, -1, -1, 'WITHSCORES')
if not state then
  return redis.error_reply('ERR the hash at the key of this barrier is not a barrier')
end
local present, known, broken = state[1], state[2] and whole(state[2], 1), state[3]
if present and not (known and whole(present, 1)) then
  return redis.error_reply('ERR the generation or the parties of this barrier are not a number')
end
if given == 'void' then
  return {-3, -1, 0, -1}
end

local position = -1
if given then
  generation, position = string.match(given, '^(%d+) (%d+)$')
  position = tonumber(position)
elseif generation == '0' and redis.call('ZSCORE', released, owner) then
  return {1, parties - 1, 0, -1}
elseif generation == '0' and present then
  local known_at = whole(redis.call('HGET', barrier, owner) or '', 0)
  generation, position = known_at and present or generation, known_at or position
end
local arrived = generation ~= '0'
local reply = {1, position, tonumber(generation), -1}
if redis.call('ZSCORE', released, generation) then
  return reply
end
local earliest, latest = tonumber(first[2] or 0), tonumber(last[2] or 0)
if latest <= ms then
  -- All have gone, and the keys are about to expire; or somebody has deleted one of them.
  present, earliest, latest = nil, 0, 0
end
reply[1] = -1
if broken or (arrived and generation ~= present) then
  return reply
end
if (present and earliest <= ms) or (arrived and not redis.call('ZSCORE', arrivals, owner)) then
  break_barrier(barrier, arrivals, channel, arrived and math.max(latest, ms + lease_ms) or latest)
  return reply
end
if present and not arrived and known ~= parties then
  return {-2, known, 0, -1}
end

if not arrived then
  generation = present
  local rounds = present and -1 or redis.call('ZCARD', released)
  for extra = 0, rounds do
    local name = string.format('%.0f', time[1] * 1000000 + time[2] + extra)
    if not redis.call('ZSCORE', released, name) then
      generation = name
      break
    end
  end
  position = present and redis.call('ZCARD', arrivals) or 0
  reply = {0, position, tonumber(generation), -1}
end
local is_last = not arrived and position + 1 == parties
-- The others do not know yet that somebody may die before `earliest`.
if is_last or (not arrived and present and ms + lease_ms < earliest) then
  redis.call('PUBLISH', channel, '0')
end
-- The first write is one that no full server refuses, so that below Redis 7 it takes the rest.
local life = string.format('%.0f', receipt_ms)
redis.call('PEXPIRE', arrival, life)
if not arrived then
  redis.call('SET', arrival, string.format('%s %.0f', generation, position), 'PX', life)
end
if is_last then
  redis.call('DEL', barrier, arrivals)
  redis.call('ZREMRANGEBYSCORE', released, '-inf', string.format('%.0f', ms))
  local until_ms = string.format('%.0f', math.max(latest, ms + receipt_ms))
  redis.call('ZADD', released, until_ms, generation, until_ms, owner)
  last = redis.call('ZRANGE', released, -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', released, string.format('%.0f', tonumber(last[2])))
  reply[1] = 1
  return reply
end
if not present then
  redis.call('DEL', arrivals)
  redis.call('HSET', barrier, 'generation', generation, 'parties', string.format('%.0f', parties), owner, '0')
elseif not arrived then
  redis.call('HSET', barrier, owner, string.format('%.0f', position))
end
redis.call('ZADD', arrivals, string.format('%.0f', ms + lease_ms), owner)
last = redis.call('ZRANGE', arrivals, -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', barrier, string.format('%.0f', tonumber(last[2])))
redis.call('PEXPIREAT', arrivals, string.format('%.0f', tonumber(last[2])))

local ends = redis.call('ZRANGE', arrivals, 0, 1, 'WITHSCORES')
local other = ends[ends[1] == owner and 4 or 2]
reply[1] = 0
reply[4] = other and math.max(0, tonumber(other) - ms) or -1
return reply
