-- As busy, for a read-write lock: the holders call who waits if all of them are ours; a crowd of
-- readers is not looked at.
local function busy_side(lock, clients, client, prefers)
  local place = join_sides(clients, client, prefers)
  if place > 1 then
    return {-1, place, 0}
  end
  local few = redis.call('HLEN', lock) <= 16
  local readers, ours = few and redis.call('HKEYS', lock) or {}, few
  for _, field in ipairs(readers) do
    ours = ours and (field == 'mode' or string.find(field, ':0', 1, true) ~= nil)
  end
  if place == 0 and few and not ours then
    owe_ours(clients)
  end
  return {redis.call('PTTL', lock), place, ours and 0 or 1}
end
