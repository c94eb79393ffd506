--! script   rate_limiter.acquire
--! version  1
--! keys     config:hash value:string client_value:string permits:zset client_permits:zset undone:zset
--! args     ids:str units:str looks:int rate:int interval_ms:int per_client:int idle_ms:int
--! returns  array: rate, interval_ms, 1 = each client has its own, units left, microseconds until the first that was refused fits, requests admitted
--! retry    safe: an admission that counts is found by its id; one that has ended is made again

--! include lib.whole
--! include lib.integer
--! include lib.units_of
--! include lib.until_fits

-- Admits requests in order, up to the first that does not fit: `ids` has 16 bytes of each, `units`
-- four bytes, how many it wants. With `looks` it only says what would happen to the first. With
-- `rate` a limiter that has none gets this one, and `idle_ms` as its keepAliveTime; without any rate
-- all numbers of the answer are 0.
-- An admission is Redisson's: length, id and units, with the moment as its score. The moment is
-- rounded up, so that no two that exclude each other are nearer than the interval.
local config, undone = KEYS[1], KEYS[6]
local ids, units, looks = ARGV[1], ARGV[2], whole(ARGV[3], 0)
local rate, interval, of_client = whole(ARGV[4], 0), whole(ARGV[5], 0), ARGV[6]
local idle_ms = whole(ARGV[7], 0)

if not (looks and rate and interval and whole(of_client, 0) and idle_ms) then
  return redis.error_reply('ERR looks, rate, interval_ms, per_client and idle_ms must be whole numbers')
elseif #ids == 0 or #ids % 16 > 0 or #ids ~= 4 * #units then
  return redis.error_reply('ERR each request must have an id of 16 bytes, and 4 bytes of units')
end
looks = looks == 1
local has = redis.call('HMGET', config, 'rate', 'interval', 'type', 'keepAliveTime')
local unset = not (has[1] and has[2] and has[3])
if unset and rate == 0 then
  return {0, 0, 0, 0, 0, 0}
end
if has[1] then
  rate = integer(has[1])
end
if has[2] then
  interval = integer(has[2])
end
of_client = has[3] or of_client
local value, permits = KEYS[2], KEYS[4]
if of_client == '1' then
  value, permits = KEYS[3], KEYS[5]
end
local written = redis.call('GET', value)
local left = integer(written or '0')
if not (rate and interval and left) or rate < 1 or interval < 1 then
  return redis.error_reply('ERR the rate of this limiter, or what is left, is not a number')
end

-- As Redisson counts. But where units and admissions do not go together, because keys have vanished,
-- the admissions are right, and what nothing would bring back is there again.
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local ended = string.format('%.0f', math.floor(micros / 1000) - interval)
local later = string.format('%.0f', math.floor(micros / 1000) - interval + 1)
local released = units_of(redis.call('ZRANGEBYSCORE', permits, '-inf', ended))
if not written or released > 0 and left + released > rate then
  left = rate - units_of(redis.call('ZRANGEBYSCORE', permits, later, '+inf'))
else
  left = left + released
  if left < rate and redis.call('ZCOUNT', permits, later, '+inf') == 0 then
    left = rate
  end
end

local members, admitted, wanted, still = {}, 0, 0, left
local undoes = redis.call('EXISTS', undone) == 1
for first = 1, #ids, 16 do
  local id = string.sub(ids, first, first + 15)
  wanted = struct.unpack('>I4', units, (first + 3) / 4)
  local member = struct.pack('Bc0I', 16, id, wanted)
  local score = redis.call('ZSCORE', permits, member)
  local served = score and tonumber(score) > tonumber(ended)
  if not (served or undoes and redis.call('ZSCORE', undone, id)) then
    if wanted > still then
      break
    end
    still = still - wanted
    members[#members + 1] = member
  end
  admitted = admitted + 1
  if looks then
    break
  end
end

local life = unset and not has[4] and idle_ms or integer(has[4] or '0') or 0
if unset then
  -- What was there is written as it was.
  redis.call('HSET', config, 'rate', string.format('%.0f', rate),
    'interval', string.format('%.0f', interval),
    'keepAliveTime', has[4] or string.format('%.0f', idle_ms), 'type', of_client)
  if life > 0 then
    redis.call('PEXPIRE', config, string.format('%.0f', life))
  end
end
local each_client = of_client == '1' and 1 or 0
if looks then
  return {rate, interval, each_client, left, until_fits(permits, later, wanted - left, interval, micros),
    admitted}
end
if released > 0 then
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', ended)
end
local moment = string.format('%.0f', math.ceil(micros / 1000))
for _, member in ipairs(members) do
  redis.call('ZADD', permits, moment, member)
end
if not written then
  redis.call('SET', value, string.format('%.0f', still))
elseif still ~= integer(written) then
  redis.call('INCRBY', value, string.format('%.0f', still - integer(written)))
end
-- Redisson's expiries; and what a client that has gone leaves ends by itself.
if life > 0 then
  redis.call('PEXPIRE', config, string.format('%.0f', life))
else
  life = redis.call('PTTL', config)
  if life <= 0 and each_client == 1 then
    life = 2 * interval + 60000
  end
end
if life > 0 then
  redis.call('PEXPIRE', value, string.format('%.0f', life))
  redis.call('PEXPIRE', permits, string.format('%.0f', life))
end
local missing = admitted * 16 < #ids and wanted - still or 0
return {rate, interval, each_client, still, until_fits(permits, later, missing, interval, micros), admitted}
