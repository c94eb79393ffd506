-- Counts a grant to others that the first client of the queue has seen. Of these, 32 are made good:
-- see lib/wake_foreign.
local function owe_ours(clients)
  local last = redis.pcall('ZRANGE', clients, '-1', '-1', 'WITHSCORES')
  if string.sub(last[1] or '', 1, 1) == '<' then
    local waiting = redis.call('ZCARD', clients) - 1
    local owed = math.min(tonumber(last[2]) - 4000000000000000 + waiting, 32 * waiting)
    redis.pcall('ZADD', clients, string.format('%.0f', 4000000000000000 + owed), last[1])
  end
end
