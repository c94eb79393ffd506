-- What a client is told that waits for a lock: after how many milliseconds to ask again, -1 if that
-- is not known; how many clients are before it; and whether the holder is not one that calls
-- who waits. Only the first two ask when the lease ends. Our owners' numbers begin with a zero.
-- The first counts what the others are granted, of which 32 grants are made good: lib/wake_foreign.
local function busy(lock, clients, client)
  local place = join_queue(clients, client)
  if place > 1 then
    return {-1, place, 0}
  end
  local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {''}
  local ours = string.find(holders[1], ':0', 1, true)
  local last = redis.pcall('ZRANGE', clients, '-1', '-1', 'WITHSCORES')
  if place == 0 and not ours and string.sub(last[1] or '', 1, 1) == '<' then
    local waiting = redis.call('ZCARD', clients) - 1
    local owed = math.min(tonumber(last[2]) - 4000000000000000 + waiting, 32 * waiting)
    redis.pcall('ZADD', clients, string.format('%.0f', 4000000000000000 + owed), last[1])
  end
  return {redis.call('PTTL', lock), place, ours and 0 or 1}
end
