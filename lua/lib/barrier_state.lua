-- The `generation`, `parties` and `broken` fields of a barrier, each false where absent; nil if the
-- key has a hash that is not a barrier's.
local function barrier_state(barrier)
  local state = redis.call('HMGET', barrier, 'generation', 'parties', 'broken')
  local ours = state[1] or state[3] or redis.call('EXISTS', barrier) == 0
  return ours and state or nil
end
