--! script   once.inspect
--! version  1
--! keys     lock:hash record:hash
--! args
--! returns  array: ms left of who runs it (-2 = nobody, -1 = no lease), ms for which the record stays (-2 = not done), its token, the bytes of its result, then who runs it and its hold count
--! retry    safe: changes nothing

local lock, record = KEYS[1], KEYS[2]
local result = redis.call('HGET', record, 'result')
local token = tonumber(redis.call('HGET', record, 'token') or '0') or 0
return {
  redis.call('PTTL', lock), redis.call('PTTL', record), token, result and #result or 0,
  unpack(redis.call('HGETALL', lock)),
}
