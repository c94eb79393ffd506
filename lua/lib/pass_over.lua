-- Takes those out of the queue of a read-write lock that were called and said nothing for 50 ms, but
-- for the `client` that asks; and those that were called in the future, by a server whose clock was
-- ahead. Some others are the first two then, and are to know. Returns whether there were any.
local function pass_over(clients, channel, client, present)
  local silent = redis.pcall('ZRANGEBYSCORE', clients, string.format('(%.0f', 50000 - present), '(0')
  local ahead = redis.pcall('ZRANGEBYSCORE', clients, '-inf', string.format('(%.0f', -50000 - present))
  for _, note in ipairs(ahead) do
    silent[#silent + 1] = note
  end
  local gone = 0
  for _, note in ipairs(silent) do
    local member = string.sub(note, 2)
    if member ~= client then
      redis.pcall('ZREM', clients, note, member)
      gone = gone + 1
    end
  end
  local first = gone > 0 and sides_front(clients) or {}
  for i = 1, 2 do
    -- The first was the second before, if only one has left.
    if (i == 2 or gone > 1) and first[i] then
      local own = channel .. ':' .. first[i]
      redis.pcall('PUBLISH', own, '2')
    end
  end
  return gone > 0
end
