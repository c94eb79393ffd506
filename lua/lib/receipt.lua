-- What the last call of one client on something shared was told, kept as '<number> <reply>'
-- under one key a client, because a bare counter cannot show that a call was served already.
-- The numbers of a client's calls grow, and resent calls come in the order of the first ones.
-- Returns nil for a new call, the first answer for a repetition of the last one, and '' for an
-- older one: served as well, but nobody waits for its answer any more.
local function served(key, number)
  local seen, reply = string.match(redis.call('GET', key) or '', '^(%d+) (.*)$')
  if not seen or tonumber(seen) < number then
    return nil
  end
  return tonumber(seen) == number and reply or ''
end
