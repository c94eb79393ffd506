-- Calls those that wait in the queue of clients for what is `free`, and tells all others, where it is
-- empty `more` if that is given; returns what `keep_calls` is to write, and how many were told.
local function offer_units(clients, channel, free, more)
  more = more or free
  if free < 1 or more < 1 or redis.pcall('EXISTS', clients) ~= 1 then
    return nil, announce(channel, more)
  end
  local work = call_units(clients, channel, free)
  tell_units(clients, channel, free, work)
  return work, 0
end
