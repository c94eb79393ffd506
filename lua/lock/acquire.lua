--! script   lock.acquire
--! version  6
--! keys     lock:hash tombstone:string version_key:string
--! args     owner:str holds:int lease_ms:int version:int version_ms:int needs:str
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void
--! retry    safe: states the hold count it wants, so twice is the same as once

--! include lib.whole
--! include lib.superseded

-- One field per owner, its value the hold count; the key's expiry is the lease.
-- An owner that counts on an earlier hold (holds > 1) and finds it gone has lost
-- it. A tombstone means this owner has left: an acquire that arrives after that
-- is a late duplicate, and granting it would make a hold that nobody knows of.
-- The version does the same for changes within one hold.
local lock, tombstone, version_key = KEYS[1], KEYS[2], KEYS[3]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 1), ARGV[3]
local version, version_ms = whole(ARGV[4], 0), whole(ARGV[5], 0)
-- To make text of a number again costs a tenth of a grant.
local lease = lease_ms
lease_ms = whole(lease_ms, 1)
local needs = ARGV[6]

if needs ~= '' then
--! include lib.lacks
  local refused = lacks(needs, lock)
  if refused then
    return refused
  end
end

if not (holds and lease_ms and version and version_ms) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end
if superseded(version_key, version) then
  return -3
end

if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0 then
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, lease)
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock)
    return refused
  end
  return nil
end

local held = redis.call('HGET', lock, owner)
if held then
  local count = whole(held, 1)
  if not count then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  local left = redis.call('PTTL', lock)
  local added = math.max(count, holds) - count
  if version > 0 and version_ms > 0 then
    redis.call('SET', version_key, string.format('%.0f', version), 'PX', string.format('%.0f', version_ms))
  end
  redis.call('HINCRBY', lock, owner, string.format('%.0f', added))
  -- Never shorten what an outer hold of the same owner relies on.
  local refused = left < lease_ms and redis.pcall('PEXPIRE', lock, string.format('%.0f', lease_ms))
  if type(refused) == 'table' then
    redis.call('HINCRBY', lock, owner, string.format('%.0f', count - math.max(count, holds)))
    return refused
  end
  return nil
end
if holds > 1 then
  return -2
end
if redis.call('EXISTS', lock) == 1 then
  return redis.call('PTTL', lock)
end
return -3
