-- As `front`, for the queue of a read-write lock, where many may be called at once: the first three
-- that wait, since when the first of them waits, how many were called, when the last of these was, and
-- whether it reads; and whether the first goes before readers. Such a writer stands before all who
-- do not: its score is smaller by 1.5e15. `<` and what follows is no client: see wake_foreign.
local function sides_front(clients)
  local found = redis.pcall('ZRANGE', clients, '0', '3', 'WITHSCORES')
  local notes, called, reads, skipped = 0, nil, false, 0
  if string.sub(found[1] or '', 1, 1) == '>' then
    called, reads = -tonumber(found[2]), string.sub(found[1], -5) == ':read'
    notes, skipped = 1, 2
    if string.sub(found[3] or '', 1, 1) == '>' then
      notes, skipped = tonumber(redis.pcall('ZCOUNT', clients, '-inf', '(0')) or 1, 0
      local from, to = string.format('%.0f', notes), string.format('%.0f', notes + 2)
      found = redis.pcall('ZRANGE', clients, from, to, 'WITHSCORES')
    end
  end
  local first = {found[skipped + 1], found[skipped + 3], found[skipped + 5]}
  for i, member in ipairs(first) do
    if string.sub(member, 1, 1) == '<' then
      first[i] = nil
    end
  end
  local since = first[1] and tonumber(found[skipped + 2])
  local preferred = since and since < 1500000000000000 or false
  if preferred then
    since = since + 1500000000000000
  end
  return first, since, notes, called, reads, preferred
end
