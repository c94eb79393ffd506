-- Gives back to the counter what those took whose leases are over, `reclaims` of them at most;
-- returns the units. `counts` says how many each of them has; without it, each has one. Taken
-- out before given back: refused halfway, units are lost rather than made.
local function reclaim(counter, permits, counts, present, reclaims)
  local over = redis.call(
    'ZRANGEBYSCORE', permits, '0', string.format('%.0f', present), 'LIMIT', '0', reclaims
  )
  if #over == 0 then
    return 0
  end
  local units = counts and 0 or #over
  if counts then
    for i = 1, reclaims do
      local count = over[i] and redis.call('HGET', counts, over[i])
      units = units + (whole(count or '', 1) or 0)
    end
  end
  redis.call('ZREM', permits, unpack(over))
  if counts then
    redis.call('HDEL', counts, unpack(over))
  end
  if units > 0 then
    redis.call('INCRBY', counter, units)
  end
  return units
end
