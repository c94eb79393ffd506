-- Puts a client at the end of the queue, unless it is there, and returns what it is told: after how
-- many milliseconds to ask again, -1 if that is not known; its place; whether some holder calls nobody;
-- and why it waits. The place is 0 for the first if nobody was called, 1 if it is one of the first two
-- that were not called, else 2. Only these ask when a lease ends or who was called is silent. Where some
-- holder calls nobody the first eight look at what it says, because Redisson's clients are many and fast.
-- One that was called has answered. Where joining is refused the client counts as the first, because
-- then nobody will call it.
local function await_units(clients, work, client, ends_ms, foreign, why)
  redis.call('ZREM', clients, '>' .. client)
  local refused = redis.pcall('ZADD', clients, 'NX', work.joined, client)
  local place = type(refused) == 'table' and 0 or work.place
  redis.pcall('PEXPIRE', clients, '60000')
  if place > 1 then
    local looks = foreign and place < 8
    return {-1, looks and 1 or 2, looks and 1 or 0, why}
  end
  if place == 0 and (work.answers or foreign) then
    owe_ours(clients)
  end
  if ends_ms < 0 or work.look_ms >= 0 and work.look_ms < ends_ms then
    ends_ms = work.look_ms
  end
  return {ends_ms, place, foreign and 1 or 0, why}
end
