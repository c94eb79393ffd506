-- Whether units of a plain semaphore may be held by clients that call nobody when they release: whose
-- holds are not recorded, as Redisson's, or whose owners' numbers do not begin with a zero. Among more
-- than 100 holders nobody looks.
local function unrecorded(free, counts, total, named)
  if redis.call('HLEN', counts) > 100 then
    return false
  end
  local known = free
  local holdings = redis.call('HGETALL', counts)
  for i, each in ipairs(holdings) do
    if i % 2 == 0 then
      known = known + (whole(each, 1) or 0)
    elseif not string.find(each, ':0', 1, true) then
      return true
    end
  end
  local noted = redis.pcall('GET', total)
  noted = type(noted) == 'string' and integer(noted) or named
  return known < noted or #holdings == 0
end
