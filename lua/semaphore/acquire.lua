--! script   semaphore.acquire
--! version  16
--! keys     counter:string permits:zset counts:hash tombstone:string total:string clients:zset
--! args     owner:str units:int lease_ms:int start_units:int reclaims:int channel:str idle_ms:int needs:str compares:int client:str yields:int
--! returns  nil = granted | int >= 0 = busy, ms until a lease is over | -1 = busy, nobody knows how long | -3 = void | -4 = there is no such semaphore | -5 = busy, and nobody of ours has what is missing | int <= -10 = nothing was done: there are other permits than start_units, -10 less this of them | array = busy: ms after which to ask again (-1 = not known), its place (see lib/await_units), 1 if some holder calls nobody, and -4, -5 as above or 0
--! retry    safe: an owner that has units already is given no more

-- The counter is Redisson's; beside it, who of us has how many units (`counts`) and until when
-- (`permits`), so that what a dead holder had comes back. Whoever asks looks for such first.
-- Only an entry there is ever given back, and only once, so neither a repetition nor a release
-- after the counter was deleted makes units out of nothing. With start_units >= 0 a semaphore
-- that is not there is made. Clients are told first, then the counter changes: whatever is
-- refused is refused before a record is written, or undone. A tombstone means this owner has left: see lock.acquire.
-- For idle_ms see lib/keep, for records that have vanished lua/README.md.
-- With compares > 0 nothing is done if there are other permits than start_units: see lib/permit_number.
-- A `client` waits in the queue of clients, see lock.acquire; lib/call_units says who may take what is
-- free.
local counter, permits, counts, tombstone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, units, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local start_units, reclaims, idle_ms = ARGV[4], ARGV[5], ARGV[7]
local needs, compares = ARGV[8], ARGV[9]
local clients = KEYS[6]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, counter)
  if refused then
    return refused
  end
end

-- The short way: enough units, nobody waits, and the counter has no expiry. It comes before the
-- functions, and looks at all numbers at once, because each of these costs nearly as much as a command.
-- With so few digits none of them is too great to be exact.
local records = redis.call('EXISTS', permits, counts, tombstone, clients)
local nobody = records == 0
local plain = (nobody or records == 2) and idle_ms == '0'
  and #units < 16 and #lease_ms < 16 and #reclaims < 16 and #start_units < 16
  and string.find(
    units .. ' ' .. lease_ms .. ' ' .. reclaims .. ' ' .. start_units,
    '^[1-9]%d* [1-9]%d* [1-9]%d* %-?[1-9]%d*$'
  )
if plain and nobody and redis.call('PTTL', counter) == -1 then
  -- Nobody has any, so most likely there are enough: to take them says so at the cost of one command.
  local time = redis.call('TIME')
  local value = redis.pcall('INCRBY', counter, '-' .. units)
  if type(value) == 'number' then
    local done = true
    if value >= 0 and value < 999999999999999
      and (compares == '0' or value + units == start_units + 0)
    then
      local ends_at = string.format('%d', time[1] * 1000 + time[2] / 1000 + lease_ms)
      done = redis.pcall('ZADD', permits, ends_at, owner)
      if type(done) ~= 'table' then
        done = redis.pcall('HSET', counts, owner, units)
      end
      if type(done) ~= 'table' then
        return nil
      end
      redis.pcall('ZREM', permits, owner)
    end
    redis.call('INCRBY', counter, units)
    if done ~= true then
      return done
    end
  end
end
local found = redis.call('GET', counter)
if plain and found and not nobody and compares == '0'
  and #found < 16 and string.find(found, '^[1-9]%d*$') and found - units >= 0
  and redis.call('PTTL', counter) == -1
  -- Others have some: all of them have both records, and this owner has none.
  and redis.call('PTTL', permits) == -1 and redis.call('HEXISTS', counts, owner) == 0
  and redis.call('ZCARD', permits) == redis.call('HLEN', counts)
then
  local time = redis.call('TIME')
  local present = time[1] * 1000 + math.floor(time[2] / 1000)
  -- The lease of one of them may be over: the rest looks.
  local last = string.format('%d', present)
  if not redis.call('ZRANGEBYSCORE', permits, '0', last, 'LIMIT', '0', '1')[1] then
    redis.call('INCRBY', counter, '-' .. units)
    local done = redis.pcall('ZADD', permits, string.format('%d', present + lease_ms), owner)
    if type(done) ~= 'table' then
      done = redis.pcall('HSET', counts, owner, units)
    end
    if type(done) ~= 'table' then
      return nil
    end
    redis.pcall('ZREM', permits, owner)
    redis.call('INCRBY', counter, units)
    return done
  end
end

local total, channel = KEYS[5], ARGV[6]
local client, yields = ARGV[10], ARGV[11]
--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.announce
--! include lib.expired
--! include lib.give_back
--! include lib.follow
--! include lib.keep
--! include lib.note_number
--! include lib.permit_number
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls
--! include lib.wake_foreign
--! include lib.tell_units
--! include lib.owe_ours
--! include lib.await_units
--! include lib.unrecorded

units, lease_ms = whole(units, 1), whole(lease_ms, 1)
start_units, reclaims = integer(start_units), whole(reclaims, 1)
idle_ms, compares = whole(idle_ms, 0), whole(compares, 0)

if not (units and lease_ms and start_units and reclaims and idle_ms and compares) then
  return redis.error_reply('ERR units, lease_ms, start_units, reclaims, idle_ms must be numbers')
end

local before = integer(found or '0')
if not before then
  return redis.error_reply('ERR the counter is not a number, or too great to be exact')
end
local present = now()
local ends_at = string.format('%.0f', present + lease_ms)
local has = not nobody and redis.call('HEXISTS', counts, owner) == 1
local leases = nobody and 0 or redis.call('ZCARD', permits)
local holders = nobody and 0 or redis.call('HLEN', counts)
local known = leases + holders > 0
if found and holders > leases then
  -- Without a lease, what a dead owner has would never come back.
  local owners = redis.call('HKEYS', counts)
  for _, each in ipairs(owners) do
    if not redis.call('ZSCORE', permits, each) then
      redis.call('ZADD', permits, ends_at, each)
    end
  end
elseif found and leases > holders and not has and redis.call('ZSCORE', permits, owner) then
  -- Asked again, and its count has vanished, but not its lease.
  redis.call('HSET', counts, owner, string.format('%.0f', units))
  has = true
end
if found and has then
  -- Nothing, but written: who asked again waits for replicas to have it, see lua/README.md.
  redis.call('INCRBY', counter, '0')
  redis.call('ZADD', permits, 'GT', ends_at, owner)
  keep(counter, permits, idle_ms)
  follow(counter, permits, counts)
  return nil
end
if not nobody and redis.call('EXISTS', tombstone) == 1 then
  return -3
end
-- What is there and neither of the records is the queue.
local queued = records > (leases > 0 and 1 or 0) + (holders > 0 and 1 or 0)
if not found and start_units < 0 then
  if known then
    redis.call('DEL', permits, counts)
  end
  if client == '' then
    return -4
  end
  return await_units(clients, call_units(clients, channel, 0, client, units, yields), client, -1, true, -4)
end
if found and compares > 0 then
  local number = permit_number(before, counts, total, start_units)
  if number ~= start_units then
    return -10 - math.max(0, number)
  end
end

local over, back = {}, 0
if found and known then
  over, back = expired(permits, counts, present, reclaims)
end
local value = found and before + back or start_units
local work = (queued or client ~= '') and call_units(clients, channel, value, client, units, yields)
local granted = value >= units and (not work or work.granted)
if granted then
  value = value - units
end
if value > before and queued then
  tell_units(clients, channel, value, work)
elseif value > before then
  announce(channel, value)
end
if not found and known then
  redis.call('DEL', permits, counts)
end
give_back(counter, permits, counts, over, back)
if granted then
  local change = (found and 0 or start_units) - units
  redis.call('INCRBY', counter, string.format('%.0f', change))
  local refused = redis.pcall('ZADD', permits, ends_at, owner)
  if type(refused) ~= 'table' then
    refused = redis.pcall('HSET', counts, owner, string.format('%.0f', units))
  end
  local recorded = type(refused) ~= 'table'
  if recorded and client ~= '' then
    refused = redis.pcall('ZREM', clients, client, '>' .. client)
  end
  if type(refused) == 'table' then
    local undone = redis.pcall('ZREM', permits, owner)
    if recorded and type(undone) == 'table' then
      -- It stays until its lease ends.
      return refused
    end
    redis.pcall('HDEL', counts, owner)
    redis.call('INCRBY', counter, string.format('%.0f', units))
    return refused
  end
elseif not found then
  redis.call('SET', counter, string.format('%.0f', start_units))
end
keep(counter, permits, idle_ms)
if not found or idle_ms > 0 then
  note_number(counter, total, not found and start_units)
end
if found or idle_ms > 0 then
  follow(counter, permits, counts, nobody and -1)
end
keep_calls(clients, work)
if granted then
  return nil
end
local nearest = redis.call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2]
local ends_ms = nearest and math.max(0, nearest - present) or -1
-- Redisson's clients have the others, whose units are not recorded, or records have vanished.
local missing = not nearest and value < (start_units < 0 and 1 or start_units)
if client == '' then
  return missing and -5 or ends_ms
end
local foreign = work.place < 8 and unrecorded(value, counts, total, start_units)
return await_units(clients, work, client, ends_ms, foreign, missing and -5 or 0)
