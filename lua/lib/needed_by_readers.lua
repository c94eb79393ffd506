-- For how many milliseconds the readers of a lock, but for `leaver`, need it: the longest of
-- their leases, or the first that is found to be `enough`. 0 if none of them reads, or all that
-- did are dead: then their fields are leftovers. The writer's field is a number too, but has no
-- such keys. Of many readers a few are looked at first.
local function needed_by_readers(lock, enough, leaver)
  local needed = 0
  for look = 1, 2 do
    local readers = look == 1 and redis.call('HRANDFIELD', lock, '16', 'WITHVALUES')
      or redis.call('HGETALL', lock)
    for i, text in ipairs(readers) do
      local count = i % 2 == 0 and readers[i - 1] ~= leaver and whole(text, 1)
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
