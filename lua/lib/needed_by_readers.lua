-- For how many milliseconds the readers of a lock, but for `leaver`, need it: the longest of
-- their leases, or one that is `enough`. 0 if none of them reads, or all that did are dead: then
-- their fields are leftovers. The writer's field is a number too, but has no such keys.
--
-- A crowd is not read as a whole. Its greatest lease is the first of the index, once that has
-- every reader. One that is missing, Redisson's or one that came before the crowd, is added with
-- no end and looked at each time; what the index says of others is checked before it is believed.
local function needed_by_readers(lock, enough, leaver)
  local needed, last = 0, redis.call('HLEN', lock)
  if last <= 16 then
    local readers = redis.call('HGETALL', lock)
    for i, text in ipairs(readers) do
      local count = i % 2 == 0 and readers[i - 1] ~= leaver and whole(text, 1)
      if count and needed < enough then
        needed = math.max(needed, reader_left(lock, readers[i - 1], count))
      end
    end
    return needed
  end

  local index = readers_index(lock)
  local lowest = redis.call('ZRANGE', index, 0, 0)[1]
  if lowest and redis.call('HEXISTS', lock, lowest) == 0 then
    redis.call('DEL', index)
  end
  local function look(field)
    local count = whole(redis.call('HGET', lock, field) or '', 1)
    local left = count and reader_left(lock, field, count)
    if left and field ~= leaver then
      needed = math.max(needed, left)
    end
    return left
  end
  -- Also so that a full server below Redis 7 takes what follows: see remember.
  local index_ms = string.format('%.0f', math.max(30000, redis.call('PTTL', lock)))
  redis.call('PEXPIRE', index, index_ms)
  local readers = redis.call('ZRANGEBYSCORE', index, '+inf', '+inf')
  for _, field in ipairs(readers) do
    if not look(field) then
      redis.call('ZREM', index, field)
    end
  end
  if redis.call('ZCARD', index) < last - 1 then
    readers = redis.call('HKEYS', lock)
    for _, field in ipairs(readers) do
      if field ~= 'mode' and not redis.call('ZSCORE', index, field) then
        redis.call('ZADD', index, '+inf', field)
        look(field)
      end
    end
    redis.call('PEXPIRE', index, index_ms)
  end
  local present = now()
  for _ = 1, last do
    local rows = redis.call('ZREVRANGEBYSCORE', index, '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 2)
    local place = rows[1] == leaver and 3 or 1
    local field, ends_at = rows[place], tonumber(rows[place + 1] or '0')
    if not field or ends_at - present <= needed then
      break
    end
    local left = look(field)
    if not left then
      redis.call('ZREM', index, field)
    elseif left < ends_at - present - 50 then
      redis.call('ZADD', index, left > 0 and string.format('%.0f', present + left) or '0', field)
    else
      break
    end
  end
  return needed
end
