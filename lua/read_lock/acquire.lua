--! script   read_lock.acquire
--! version  10
--! keys     lock:hash tombstone:string version_key:string writers:zset clients:zset
--! args     owner:str holds:int lease_ms:int version:int version_ms:int yields:int channel:str needs:str client:str defers:int
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void | array = busy, in the queue: as lock.acquire | -6 = nothing was done: a writer waits that readers with yields 1 let go first
--! retry    safe: states the hold count it wants, so twice is the same as once
--! computes lease keys of readers, and their index

-- Redisson's hash: a field "mode" and one field for each reader, its value the hold count.
-- Each hold has a key of its own beside the hash, whose expiry is that hold's lease; the hash
-- lives as long as the longest of them. Who writes may read as well, and so keep the lock
-- for reading when it stops writing; all others are let in only by the mode "read". A reader
-- whose keys are all gone counts as dead, whatever its field says: it begins anew, or, if it
-- counts on an earlier hold (holds > 1), has lost that.
-- For tombstones and versions see lock.acquire. A read under a write hold has the owner of that
-- hold, which goes on, so only its version tells a late acquire from a new one.
-- With `yields` 1 a new reader is not let in while a writer waits that said so (`alive_ms` of
-- write_lock.acquire). Whoever is in already, also as the writer, never yields. With `yields` 2 it says
-- that there is such a writer, in place of waiting for it; its client then asks with 0.
-- A `client` waits in the queue of clients: see lock.acquire, where `defers` is `yields`, and
-- lib/may_enter.
local lock, tombstone, writers, clients = KEYS[1], KEYS[2], KEYS[4], KEYS[5]
local owner, holds, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local version, version_ms, yields = ARGV[4], ARGV[5], ARGV[6]
local channel, needs, client, defers = ARGV[7], ARGV[8], ARGV[9], ARGV[10]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

-- The short way: a new owner and a free lock. It comes before the functions, because these and
-- looking at numbers cost about as much as commands. For the name see lib/reader_key.
local plain = holds == '1' and version == '0' and version_ms == '0'
  and #lease_ms < 16 and string.find(lease_ms, '^[1-9]%d*$')
local found = plain and (yields == '0' and redis.call('EXISTS', lock, tombstone, clients)
  or (yields == '1' or yields == '2') and redis.call('EXISTS', lock, tombstone, clients, writers))
if found == 0 then
  local tag = '{' .. lock .. '}'
  if string.find(lock, '{', 1, true) then
    tag = lock
  end
  local mine = tag .. ':' .. owner .. ':rwlock_timeout:1'
  redis.call('SET', mine, '1', 'PX', lease_ms)
  local done = redis.pcall('HSET', lock, 'mode', 'read', owner, '1')
  if type(done) ~= 'table' then
    done = redis.pcall('PEXPIRE', lock, lease_ms)
  end
  if type(done) ~= 'table' then
    return nil
  end
  -- Not permitted: without a lease it would be held for ever.
  redis.call('DEL', lock, mine)
  return done
end

--! include lib.reader_key

-- The same beside other readers, if they are no crowd: then there is no index to keep.
-- Others may wait in the queue, but no writer to which it yields.
local read = found and redis.call('HMGET', lock, 'mode', owner)
if read and read[1] == 'read' and not read[2] and client == ''
  and (found == 1 or redis.call('EXISTS', tombstone, writers) == 0)
  and redis.call('HLEN', lock) < 16
then
  local left = redis.call('PTTL', lock)
  redis.call('SET', reader_key(lock, owner, 1), '1', 'PX', lease_ms)
  if left < tonumber(lease_ms) then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  redis.call('HSET', lock, owner, '1')
  return nil
end

local version_key = KEYS[3]
--! include lib.whole
--! include lib.superseded
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.now
--! include lib.readers_index
--! include lib.index_reader
--! include lib.sides_front
--! include lib.pass_over
--! include lib.call_sides
--! include lib.mark_sides
--! include lib.leave_sides
--! include lib.may_enter
--! include lib.join_sides
--! include lib.owe_ours
--! include lib.busy_side
--! include lib.bring_readers

holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)
version, version_ms, yields = whole(version, 0), whole(version_ms, 0), whole(yields, 0)

if not (holds and lease_ms and version and version_ms and yields) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end
if superseded(version_key, version) then
  return -3
end
if yields > 0 and holds == 1 then
  local last = redis.call('ZRANGE', writers, '-1', '-1', 'WITHSCORES')
  local wait = last[2] and tonumber(last[2]) - now() or 0
  local is_in = wait > 0 and redis.call('HMGET', lock, owner, owner .. ':write')
  if is_in and not (is_in[1] or is_in[2]) then
    if yields == 2 then
      return -6
    end
    -- Not longer than the last of the writers that wait counts as alive.
    if client == '' then
      return wait
    elseif redis.call('EXISTS', tombstone) == 1 then
      return -3
    end
    local place = join_sides(clients, client)
    local first, _, notes = sides_front(clients)
    if notes == 0 and string.sub(first[1] or '', -6) == ':write' and redis.call('EXISTS', lock) == 0 then
      mark_sides(clients, call_sides(clients, channel))
    end
    return {place > 1 and -1 or wait, place, 0}
  end
end
local mine = reader_key(lock, owner, holds)

local free = holds == 1 and not (read and read[1]) and redis.call('EXISTS', lock, tombstone) == 0
local may, look_ms = free, -1
if free then
  may, look_ms = may_enter(clients, channel, client, defers, true)
end
if free and not may then
  return client == '' and 0 or {look_ms, join_sides(clients, client), 0}
end
if free then
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('SET', mine, '1', 'PX', string.format('%.0f', lease_ms))
  local refused = redis.pcall('HSET', lock, 'mode', 'read', owner, 1)
  if type(refused) ~= 'table' then
    refused = redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  end
  if type(refused) ~= 'table' then
    refused = bring_readers(clients, channel, client)
  end
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock, mine)
    return refused
  end
  return nil
end

local mode, held = unpack(read or redis.call('HMGET', lock, 'mode', owner))
local count = whole(held or '0', 0)
if not count then
  return redis.error_reply('ERR the hold count in this hash is not a number')
end
if count > 0 and reader_left(lock, owner, count) == -2 then
  count = 0
end
if holds > 1 and count == 0 then
  return -2
end
if mode ~= 'read' and redis.call('HEXISTS', lock, owner .. ':write') == 0 then
  if redis.call('EXISTS', lock) == 0 then
    return -3
  end
  if client == '' then
    return redis.call('PTTL', lock)
  end
  -- A late acquire must not join the queue either.
  if redis.call('EXISTS', tombstone) == 1 then
    return -3
  end
  return busy_side(lock, clients, client)
end
if count == 0 and redis.call('EXISTS', tombstone) == 1 then
  return -3
end

-- Never shorten what a hold of this or of another reader relies on; but the key of a new hold
-- may be there from before a forced release. The key first: what a full server refuses must
-- come before whatever it lets pass.
local left = redis.call('PTTL', lock)
if version > 0 and version_ms > 0 then
  redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
end
if count < holds or redis.call('PTTL', mine) < lease_ms then
  redis.call('SET', mine, '1', 'PX', string.format('%.0f', lease_ms))
end
if left < lease_ms then
  redis.call('PEXPIRE', lock, string.format('%.0f', lease_ms))
end
-- Also what it is already: who asked again waits for replicas to have it, see lua/README.md.
redis.call('HSET', lock, owner, string.format('%.0f', math.max(count, holds)))
index_reader(lock, owner, lease_ms, 'GT', count == 0)
if client ~= '' then
  bring_readers(clients, channel, client)
end
return nil
