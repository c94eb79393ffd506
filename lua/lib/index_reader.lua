-- Notes in the index of a crowd how long a reader's longest lease lasts from now on: `how` is GT if
-- it is only ever lengthened, else CH. A new reader is added, if the index is not that of an
-- earlier lock of this name. PEXPIRE first: see remember.
local function index_reader(lock, owner, lease_ms, how, joins)
  if redis.call('HLEN', lock) <= 16 then
    return
  end
  local index = readers_index(lock)
  local ends_at = string.format('%.0f', now() + lease_ms)
  redis.call('PEXPIRE', index, string.format('%.0f', math.max(lease_ms, redis.call('PTTL', lock))))
  if not joins then
    redis.call('ZADD', index, 'XX', how, ends_at, owner)
    return
  end
  local lowest = redis.call('ZRANGE', index, 0, 0)[1]
  if lowest and redis.call('HEXISTS', lock, lowest) == 0 then
    redis.call('DEL', index)
  end
  redis.call('ZADD', index, how, ends_at, owner)
  redis.call('PEXPIRE', index, string.format('%.0f', math.max(lease_ms, redis.call('PTTL', lock))))
end
