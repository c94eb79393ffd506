-- Gives back to the counter what `expired` found. What removes nothing comes first: a user that
-- may not remove records is refused before the count grows, and below Redis 7 a full server takes
-- INCRBY only in a script that has written already.
local function give_back(counter, permits, counts, over, units)
  if #over == 0 then
    return
  end
  redis.call('ZREM', permits, '')
  if counts then
    redis.call('HDEL', counts, '')
  end
  if units > 0 then
    redis.call('INCRBY', counter, string.format('%.0f', units))
  end
  redis.call('ZREM', permits, unpack(over))
  if counts then
    redis.call('HDEL', counts, unpack(over))
  end
end
