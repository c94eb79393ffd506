-- Milliseconds of the server's clock, the only one that decides; Redisson writes its own clock
-- into the same places, in the same unit.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
