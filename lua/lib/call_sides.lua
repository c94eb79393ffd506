-- Calls those in the queue of a read-write lock that may come in, each on a channel of its own: the
-- first, if that writes; if it reads, all readers. With `readers` only these, wherever they stand.
-- Who does not hear it is gone, and leaves the queue. A `client` that asks, and a reader that was called
-- and has not answered, need not be called. Returns whom it called: `mark_sides` follows, behind
-- the writes that must not fail. What only clients that wait need goes with the last of them.
local function call_sides(clients, channel, client, readers)
  local waiting = tonumber(redis.pcall('ZCARD', clients)) or 0
  local called, noted, seen, done, gone, foreign = {}, {}, 0, false, false, nil
  local alone = waiting > 0
  for i = 1, waiting do
    local from, to = string.format('%.0f', seen), string.format('%.0f', seen + (i == 1 and 3 or 99))
    local some, dead = redis.pcall('ZRANGE', clients, from, to), {}
    for _, member in ipairs(some) do
      local mark, reads = string.sub(member, 1, 1), string.sub(member, -5) == ':read'
      if mark == '>' then
        noted[string.sub(member, 2)] = true
      elseif mark == '<' then
        foreign = member
      elseif done or readers and not reads then
        alone = false
      else
        local own = channel .. ':' .. member
        local comes = member == client or reads and noted[member]
        local told = comes and 1 or tonumber(redis.pcall('PUBLISH', own, '0'))
        if told == 0 then
          dead[#dead + 1] = member
          dead[#dead + 1] = '>' .. member
        else
          -- Where it is not permitted nobody is called.
          alone, readers, done = false, reads, not (told and reads)
          if told and not (reads and noted[member]) then
            called[#called + 1] = member
          end
        end
      end
    end
    seen = seen + #some
    if dead[1] then
      local removed = redis.pcall('ZREM', clients, unpack(dead))
      done = done or type(removed) == 'table'
      seen, gone = seen - (tonumber(removed) or 0), true
    end
    if done or not some[1] then
      break
    end
  end
  if foreign and alone then
    redis.pcall('ZREM', clients, foreign)
  end
  local second = gone and sides_front(clients)[2]
  if second and second ~= client then
    local own = channel .. ':' .. second
    redis.pcall('PUBLISH', own, '2')
  end
  return called
end
