--! script   lock.acquire
--! version  2
--! keys     lock:hash tombstone:string
--! args     owner:str holds:int lease_ms:int
--! returns  nil = granted | int >= 0 = busy, milliseconds left | -1 = busy, no lease | -2 = lost | -3 = void
--! retry    safe: states the hold count it wants, so twice is the same as once

--! include lib.whole

-- One field per owner, its value the hold count; the key's expiry is the lease.
-- An owner that counts on an earlier hold (holds > 1) and finds it gone has lost
-- it. A tombstone means this owner has left: an acquire that arrives after that
-- is a late duplicate, and granting it would make a hold that nobody knows of.
local lock, tombstone = KEYS[1], KEYS[2]
local owner, holds, lease_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (holds and lease_ms) then
  return redis.error_reply('ERR holds and lease_ms must be positive integers')
end

if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0 then
  redis.call('HINCRBY', lock, owner, 1)
  local refused = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(refused) == 'table' then
    -- Not permitted: without a lease it would be held for ever.
    redis.call('DEL', lock)
    return refused
  end
  return nil
end

local held = redis.call('HGET', lock, owner)
if held then
  if not whole(held, 1) then
    return redis.error_reply('ERR the hold count in this hash is not a number')
  end
  redis.call('HINCRBY', lock, owner, holds - whole(held, 1))
  -- Never shorten what an outer hold of the same owner relies on.
  if redis.call('PTTL', lock) < lease_ms then
    redis.call('PEXPIRE', lock, lease_ms)
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
