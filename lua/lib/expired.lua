-- The holders whose leases are over, `reclaims` of them at most, and their units. `counts` says
-- how many each of them has; without it, each has one. So has one whose count has vanished, because
-- nobody has fewer. Reads only; see give_back.
local function expired(permits, counts, present, reclaims)
  local last, limit = string.format('%.0f', present), string.format('%.0f', reclaims)
  local over = redis.call('ZRANGEBYSCORE', permits, '0', last, 'LIMIT', '0', limit)
  local units = counts and 0 or #over
  if counts then
    for i = 1, reclaims do
      if not over[i] then
        break
      end
      local count = redis.call('HGET', counts, over[i])
      units = units + (whole(count or '1', 1) or 0)
    end
  end
  return over, units
end
