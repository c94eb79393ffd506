-- The first three of the clients that wait for something, since when the first of them waits, and
-- when one was called, or nil: microseconds. That is noted in a further entry, '>' and its name,
-- whose score is the moment with a minus, so that it comes before all others; and that entry.
-- What cannot be read is no queue: a key of another type must not keep who has a lock from releasing it.
local function front(clients)
  local found = redis.pcall('ZRANGE', clients, '0', '3', 'WITHSCORES')
  local note = string.sub(found[1] or '', 1, 1) == '>' and found[1] or nil
  local first, called = note and 3 or 1, note and -tonumber(found[2]) or nil
  return {found[first], found[first + 2], found[first + 4]}, tonumber(found[first + 1]), called, note
end
