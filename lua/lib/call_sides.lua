-- Calls those in the queue of a read-write lock that may come in, each on a channel of its own: the
-- first, if that writes; if it reads, all readers. With `readers` only these, wherever they stand.
-- Who does not hear it is gone, and leaves the queue. A `client` that asks, and a reader that was called
-- and has not answered, need not be called. Returns whom it called: `mark_sides` follows, behind
-- the writes that must not fail.
local function call_sides(clients, channel, client, readers)
  local waiting = tonumber(redis.pcall('ZCARD', clients)) or 0
  local called, dead, noted, seen, writer, foreign, alone = {}, {}, {}, 0, false, nil, true
  for i = 1, waiting do
    local some = redis.pcall('ZRANGE', clients, seen, seen + (i == 1 and 3 or 99))
    if writer or not some[1] then
      break
    end
    seen = seen + #some
    for _, member in ipairs(some) do
      local mark, reads = string.sub(member, 1, 1), string.sub(member, -5) == ':read'
      if mark == '>' then
        noted[string.sub(member, 2)] = true
      elseif mark == '<' then
        foreign = member
      elseif readers and not reads then
        alone = false
      elseif not writer then
        local own = channel .. ':' .. member
        local comes = member == client or reads and noted[member]
        local told = comes and 1 or tonumber(redis.pcall('PUBLISH', own, '0'))
        if told == 0 then
          dead[#dead + 1] = member
        elseif told then
          alone = false
          readers, writer = reads, not reads
          if not (reads and noted[member]) then
            called[#called + 1] = member
          end
        else
          -- Not permitted: nobody is called.
          writer, alone = true, false
        end
      end
    end
  end
  if foreign and alone then
    -- What only clients that wait need.
    dead[#dead + 1] = foreign
  end
  if dead[1] then
    for _, member in ipairs(dead) do
      redis.pcall('ZREM', clients, member, '>' .. member)
    end
    local second = sides_front(clients)[2]
    if second and second ~= client then
      local own = channel .. ':' .. second
      redis.pcall('PUBLISH', own, '2')
    end
  end
  return called
end
