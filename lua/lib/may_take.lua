-- Whether a client may take what is free, or has to let the first of those that wait go first: one
-- that was called within the last 50 ms, or is called now, and has waited longer than 20 ms. In a
-- shorter wait a newcomer may come first, for that is faster; one that `yields` has just let go of
-- it, and does not (1). One that waits and cannot stand in the queue (-1) has the chance of one of all
-- that wait. Who was called and said nothing for 50 ms is passed over: it leaves the queue. So
-- is one that was called in the future, by a server whose clock was ahead.
-- If not, returns after how many milliseconds to look again, or -1 if others do.
local function may_take(clients, channel, client, yields)
  local time = redis.call('TIME')
  local present = time[1] * 1000000 + time[2]
  local first, since, called, note = front(clients)
  local looks = false
  if called and first[1] ~= client and math.abs(present - called) > 50000 then
    leave_queue(clients, channel, string.sub(note, 2))
    first, since, called = front(clients)
    looks = true
  end
  if not first[1] or first[1] == client or yields ~= '1' and present - since <= 20000
    or yields == '-1' and present % redis.call('ZCARD', clients) == 0 then
    return true
  end
  if not called then
    local next_one = call_next(clients, channel, client)
    if not next_one or next_one == client then
      return true
    end
    mark_called(clients, next_one)
    looks, called = true, present
  end
  return false, (looks or first[2] == client) and math.ceil((called + 51000 - present) / 1000) or -1
end
