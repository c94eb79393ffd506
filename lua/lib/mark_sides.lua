-- As mark_called, for all that `call_sides` called.
local function mark_sides(clients, called)
  local time = called[1] and redis.pcall('TIME') or {}
  local moment = time[1] and string.format('-%.0f', time[1] * 1000000 + time[2])
  for _, member in ipairs(called) do
    if moment then
      redis.pcall('ZADD', clients, moment, '>' .. member)
    end
  end
end
