-- Microseconds until so many units, `missing` of a rate limiter, have come back: the oldest
-- admissions end first. 0 if none is missing.
local function until_fits(permits, after, missing, interval, micros)
  if missing <= 0 then
    return 0
  end
  -- Each admission has a unit or more.
  local limit = string.format('%.0f', missing)
  local oldest = redis.call('ZRANGEBYSCORE', permits, after, '+inf', 'WITHSCORES', 'LIMIT', '0', limit)
  local moment = 0
  for i = 1, #oldest, 2 do
    moment = tonumber(oldest[i + 1])
    missing = missing - select(2, struct.unpack('Bc0I', oldest[i]))
    if missing <= 0 then
      break
    end
  end
  return math.max(1, math.ceil((moment + interval) * 1000 - micros))
end
