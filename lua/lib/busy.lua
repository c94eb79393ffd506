-- What a client is told that waits for a lock: after how many milliseconds to ask again, -1 if that
-- is not known; how many clients are before it; and whether the holder is not one that calls
-- who waits. Only the first two ask when the lease ends. Our owners' numbers begin with a zero.
-- The first counts what the others are granted.
local function busy(lock, clients, client)
  local place = join_queue(clients, client)
  if place > 1 then
    return {-1, place, 0}
  end
  local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {''}
  local ours = string.find(holders[1], ':0', 1, true)
  if place == 0 and not ours then
    owe_ours(clients)
  end
  return {redis.call('PTTL', lock), place, ours and 0 or 1}
end
