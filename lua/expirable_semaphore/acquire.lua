--! script   expirable_semaphore.acquire
--! version  13
--! keys     counter:string permits:zset tombstone:string clients:zset
--! args     ids:str units:int lease_ms:int start_units:int reclaims:int channel:str idle_ms:int needs:str compares:int client:str yields:int
--! returns  nil = granted | int >= 0 = busy, ms until a lease is over | -1 = busy, nobody knows how long | -3 = void | -4 = there is no such semaphore | -5 = busy, and nobody has what is missing | int <= -10 = nothing was done: there are other permits than start_units, -10 less this of them | array = busy: see semaphore.acquire
--! retry    safe: states the ids it wants, so twice is the same as once

-- One id for each unit, all of them or none. The caller makes the ids, so a repetition finds
-- them there and takes no more. Finding only some, it came late: others were given back since.
-- The tombstone stands for the whole list; see lock.acquire. The score of a permit that never
-- ends is Redisson's 922337203685477. Each id is a command or two, so their number is bounded:
-- nobody else is served meanwhile. For idle_ms see lib/keep. Redisson's clients record what they
-- take as well, so what nobody has and is not free has vanished. With compares > 0 nothing is done if
-- there are other permits than start_units. For a `client` that waits see semaphore.acquire.
local counter, permits, tombstone, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ids, units, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local start_units, reclaims, idle_ms = ARGV[4], ARGV[5], ARGV[7]
local needs, compares = ARGV[8], ARGV[9]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, counter)
  if refused then
    return refused
  end
end

-- The short way, see semaphore.acquire: one permit, and nobody waits.
local plain = units == '1' and #ids == 16 and idle_ms == '0'
  and #lease_ms < 16 and #reclaims < 16 and #start_units < 16
local found = plain and redis.call('GET', counter)
local records = found and #found < 16
  and string.find(
    lease_ms .. ' ' .. reclaims .. ' ' .. found .. ' ' .. start_units,
    '^[1-9]%d* [1-9]%d* [1-9]%d* %-?[1-9]%d*$'
  )
  and redis.call('EXISTS', permits, tombstone, clients)
if records and records < 2 and (compares == '0' or records == 0 and found == start_units)
  and redis.call('PTTL', counter) == -1
  -- Others have some, and there is no tombstone.
  and (records == 0 or redis.call('PTTL', permits) == -1 and not redis.call('ZSCORE', permits, ids))
then
  local time = redis.call('TIME')
  local present = time[1] * 1000 + math.floor(time[2] / 1000)
  local last = records > 0 and string.format('%d', present)
  if not last or not redis.call('ZRANGEBYSCORE', permits, '0', last, 'LIMIT', '0', '1')[1] then
    redis.call('INCRBY', counter, '-1')
    local refused = redis.pcall('ZADD', permits, string.format('%d', present + lease_ms), ids)
    if type(refused) == 'table' then
      redis.call('INCRBY', counter, '1')
      return refused
    end
    return nil
  end
end

local channel = ARGV[6]
local client, yields = ARGV[10], ARGV[11]
--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.follow
--! include lib.keep
--! include lib.permit_id
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.owe_ours
--! include lib.await_units

units, lease_ms = whole(units, 1), whole(lease_ms, 1)
start_units, reclaims = integer(start_units), whole(reclaims, 1)
idle_ms, compares = whole(idle_ms, 0), whole(compares, 0)

if not (units and lease_ms and start_units and reclaims and idle_ms and compares and #ids == 16 * units) then
  return redis.error_reply('ERR ids must be units times 16 bytes, the rest whole numbers')
end
if units > 10000 then
  return redis.error_reply('ERR units must be at most 10000')
end

found = found or redis.call('GET', counter)
local value = integer(found or '0')
if not value then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
local taken = redis.call('ZCARD', permits)
local known = taken > 0
local there = 0
if found and known then
  for i = 1, units do
    there = there + (redis.call('ZSCORE', permits, permit_id(ids, i)) and 1 or 0)
  end
end
local present = now()
local ends_at = string.format('%.0f', present + lease_ms)
if there == units then
  -- Nothing, but written: who asked again waits for replicas to have it, see lua/README.md.
  redis.call('INCRBY', counter, '0')
  for i = 1, units do
    redis.call('ZADD', permits, 'GT', ends_at, permit_id(ids, i))
  end
  keep(counter, permits, idle_ms)
  follow(counter, permits)
  return nil
end
local others = redis.call('EXISTS', tombstone, clients)
local queued = others == 2 or others == 1 and redis.call('EXISTS', tombstone) == 0
if there > 0 or others > (queued and 1 or 0) then
  return -3
end
if not found and start_units < 0 then
  if known then
    redis.call('DEL', permits)
  end
  if client == '' then
    return -4
  end
  return await_units(clients, call_units(clients, channel, 0, client, units, yields), client, -1, true, -4)
end
if found and compares > 0 and value + taken ~= start_units then
  return -10 - math.max(0, value + taken)
end

local over, back = {}, 0
if found and known then
  over, back = expired(permits, nil, present, reclaims)
end
value = found and value + back or start_units
local work = (queued or client ~= '') and call_units(clients, channel, value, client, units, yields)
if queued and (back > 0 or not found) then
  tell_units(clients, channel, value, work)
else
  announce(channel, (back > 0 or not found) and value or 0)
end
if known and not found then
  redis.call('DEL', permits)
end
give_back(counter, permits, nil, over, back)
local granted = value >= units and (not work or work.granted)
if granted then
  local change = (found and 0 or start_units) - units
  redis.call('INCRBY', counter, string.format('%.0f', change))
  local rows = {}
  for i = 1, units do
    rows[#rows + 1] = ends_at
    rows[#rows + 1] = permit_id(ids, i)
    if #rows == 2000 or i == units then
      local refused = redis.pcall('ZADD', permits, unpack(rows))
      if type(refused) == 'table' then
        redis.call('INCRBY', counter, string.format('%.0f', units))
        return refused
      end
      rows = {}
    end
  end
  local refused = client ~= '' and redis.pcall('ZREM', clients, client, '>' .. client)
  if type(refused) == 'table' then
    -- What cannot be taken back stays until its lease ends.
    local undone = 0
    for i = 1, units do
      undone = undone + (type(redis.pcall('ZREM', permits, permit_id(ids, i))) == 'table' and 0 or 1)
    end
    redis.call('INCRBY', counter, string.format('%.0f', undone))
    return refused
  end
elseif not found then
  redis.call('SET', counter, string.format('%.0f', start_units))
end
keep(counter, permits, idle_ms)
if found or idle_ms > 0 then
  follow(counter, permits, nil, not known and -1)
end
keep_calls(clients, work)
if granted then
  return nil
end
local nearest = tonumber(redis.call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2])
local missing = not nearest and value < (start_units < 0 and 1 or start_units)
local ends_ms = nearest and nearest ~= 922337203685477 and math.max(0, nearest - present) or -1
if client == '' then
  return missing and -5 or ends_ms
end
-- Redisson's ids are random; of ours the numbers, which the last six bytes are, begin with zeros.
local foreign, first = missing, work.place < 8 and redis.call('ZRANGE', permits, '0', '99') or {}
for _, id in ipairs(first) do
  foreign = foreign or string.sub(id, 11, 12) ~= '\0\0'
end
return await_units(clients, work, client, ends_ms, foreign, missing and -5 or 0)
