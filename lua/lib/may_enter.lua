-- As may_take, for one side of a read-write lock that is free. A reader may come beside readers that
-- are called, and brings those that wait (lib/bring_readers). A writer that goes before readers
-- waits for such writers only.
local function may_enter(clients, channel, client, yields, reads, prefers)
  local time = redis.call('TIME')
  local present = time[1] * 1000000 + time[2]
  local first, since, notes, called, readers, preferred = sides_front(clients)
  local looks = false
  if notes > 0 and pass_over(clients, channel, client, present) then
    first, since, notes, called, readers, preferred = sides_front(clients)
    looks = true
  end
  if not first[1] or first[1] == client or prefers and not preferred
    or reads and (readers or string.sub(first[1], -5) == ':read')
    or yields ~= '1' and present - since <= 20000
    or yields == '-1' and present % redis.call('ZCARD', clients) == 0 then
    return true
  end
  if notes == 0 then
    local others = call_sides(clients, channel, client)
    local found = not others[1]
    for _, each in ipairs(others) do
      found = found or each == client or reads and string.sub(each, -5) == ':read'
    end
    if found then
      return true
    end
    mark_sides(clients, others)
    looks, called = true, present
  end
  return false, (looks or first[2] == client) and math.ceil((called + 51000 - present) / 1000) or -1
end
