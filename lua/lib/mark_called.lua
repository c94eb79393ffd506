-- Notes when a client was called: see front. A refusal changes nothing, because the note only tells
-- how long others wait for it.
local function mark_called(clients, member)
  local time = redis.pcall('TIME')
  if time[1] then
    local moment = string.format('-%.0f', time[1] * 1000000 + time[2])
    redis.pcall('ZADD', clients, moment, '>' .. member)
  end
end
