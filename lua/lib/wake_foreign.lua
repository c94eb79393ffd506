-- Wakes Redisson's clients at a release that has called one of ours, unless they were granted more
-- than their share. The `message` begins with a zero: for ours it is no call. What ours are still
-- owed is the score, above 4e15, of a further entry in the queue, behind all clients: '<' and how
-- many of Redisson's listened when they were woken last. It counts in parts of a grant: of one of
-- theirs as many as ours wait (see lib/busy), of one of ours as many as theirs listen. Where one of
-- ours waits alone they are always woken, because nobody else would notice that it is dead.
local function wake_foreign(clients, channel, message)
  local last = redis.pcall('ZRANGE', clients, '-1', '-1', 'WITHSCORES')
  local known = string.sub(last[1] or '', 1, 1) == '<' and last[1] or nil
  local owed = known and tonumber(last[2]) - 4000000000000000 or 0
  local waiting = (tonumber(redis.pcall('ZCARD', clients)) or 0) - (known and 1 or 0)
  local told = known and tonumber(string.sub(known, 2))
  local quiet = owed > 0 and waiting > 1
  if not quiet then
    told = redis.call('PUBLISH', channel, message or '00')
  elseif not message then
    redis.call('PUBLISH', channel, '02')
  end
  local entry = told > 0 and waiting > 1 and '<' .. told or nil
  if known and known ~= entry then
    redis.pcall('ZREM', clients, known)
  end
  if entry then
    owed = math.max(owed - told, -4 * waiting)
    redis.pcall('ZADD', clients, string.format('%.0f', 4000000000000000 + owed), entry)
  end
  return quiet
end
