#!lua flags=allow-oom
--! script   rate_limiter.undo
--! version  3
--! keys     value:string client_value:string permits:zset client_permits:zset undone:zset
--! args     id:str units:int undone_ms:int channel:str
--! returns  1 = it was admitted, and is not any more | 0 = it was not
--! retry    safe: an admission is found by its id

--! include lib.whole

-- Takes an admission back that nobody has used, and refuses the request if it comes later. With 0 units
-- it only refuses late copies of a request that was answered.
local undone, id = KEYS[5], ARGV[1]
local units, undone_ms, channel = whole(ARGV[2], 0), whole(ARGV[3], 1), ARGV[4]
if not (units and undone_ms) or #id ~= 16 then
  return redis.error_reply('ERR units and undone_ms must be whole numbers, and an id has 16 bytes')
end
local member = struct.pack('Bc0I', 16, id, units)
local value, permits
if redis.call('ZSCORE', KEYS[3], member) then
  value, permits = KEYS[1], KEYS[3]
end
if redis.call('ZSCORE', KEYS[4], member) then
  value, permits = KEYS[2], KEYS[4]
end
redis.call('ZSCORE', undone, id)
local counted = value and redis.call('EXISTS', value) == 1
-- Below Redis 7 a full server takes what needs memory only in a script that has written already.
redis.call('PEXPIRE', undone, string.format('%.0f', undone_ms))
if counted then
  -- Changes nothing, but would be refused as the one below.
  redis.call('INCRBY', value, '0')
end
if value then
  redis.call('PUBLISH', channel, '1')
  redis.call('ZREM', permits, '')
end
local time = redis.call('TIME')
local present = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', undone, '-inf', string.format('%.0f', present))
redis.call('ZADD', undone, string.format('%.0f', present + undone_ms), id)
redis.call('PEXPIRE', undone, string.format('%.0f', undone_ms))
if not value then
  return 0
end
redis.call('ZREM', permits, member)
if counted then
  redis.call('INCRBY', value, string.format('%.0f', units))
end
return 1
