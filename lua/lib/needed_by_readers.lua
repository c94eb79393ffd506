-- For how many milliseconds the readers of a lock need it: the longest of their leases, or
-- the first that is found to be `enough`. 0 if nobody reads, or whoever did is dead: then its
-- field is a leftover. The writer's field is a number too, but has no such keys. Of many readers
-- a few are asked first: most have about the same lease left, and reading the whole hash each
-- time would cost a crowd that leaves the square of its number.
local function needed_by_readers(lock, enough)
  local needed = 0
  for look = 1, 2 do
    local readers = look == 1 and redis.call('HRANDFIELD', lock, '16', 'WITHVALUES')
      or redis.call('HGETALL', lock)
    for i, text in ipairs(readers) do
      local count = i % 2 == 0 and whole(text, 1)
      if count then
        needed = math.max(needed, reader_left(lock, readers[i - 1], count))
      end
      if needed >= enough then
        return needed
      end
    end
    if #readers < 32 then
      return needed
    end
  end
  return needed
end
