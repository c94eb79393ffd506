#!lua flags=allow-oom
--! script   rate_limiter.set
--! version  1
--! keys     config:hash value:string client_value:string permits:zset client_permits:zset receipt:string
--! args     rate:int interval_ms:int per_client:int idle_ms:int replaces:int channel:str calls:int receipt_ms:int
--! returns  1 = set | 0 = there was a rate, and replaces is 0
--! retry    safe: leaves a receipt, so that a repetition gets the first answer and sets nothing

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.spare_others

-- Without `replaces` it fills in what is missing, as Redisson's trySetRate does; with it, what was
-- admitted before does not count any more, as with its setRate. Of the other type nothing is left.
local config, receipt = KEYS[1], KEYS[6]
local rate, interval, of_client = whole(ARGV[1], 1), whole(ARGV[2], 1), whole(ARGV[3], 0)
local idle_ms, replaces, channel = whole(ARGV[4], 0), whole(ARGV[5], 0), ARGV[6]
local calls, receipt_ms = whole(ARGV[7], 1), whole(ARGV[8], 1)
if not (rate and interval and of_client and idle_ms and replaces and calls and receipt_ms) then
  return redis.error_reply('ERR rate, interval_ms, replaces, calls and the others must be whole numbers')
end
replaces = replaces == 1
if replaces then
  spare_others(KEYS[2], KEYS[3], KEYS[4], KEYS[5])
end
local kind = redis.call('HGET', config, 'type')
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end
local sets = replaces or not kind
if sets then
  redis.call('PUBLISH', channel, '1')
end
leave_receipt(receipt, calls, sets and '1' or '0', receipt_ms)
local has = {}
if not replaces then
  has = redis.call('HMGET', config, 'rate', 'interval', 'keepAliveTime')
end
if sets then
  redis.call('HSET', config, 'rate', has[1] or string.format('%.0f', rate),
    'interval', has[2] or string.format('%.0f', interval),
    'keepAliveTime', has[3] or string.format('%.0f', idle_ms),
    'type', string.format('%.0f', of_client))
end
if sets and idle_ms > 0 then
  redis.call('PEXPIRE', config, string.format('%.0f', idle_ms))
end
if replaces and kind and kind ~= ARGV[3] then
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
elseif replaces and of_client == 1 then
  redis.call('DEL', KEYS[3], KEYS[5])
elseif replaces then
  redis.call('DEL', KEYS[2], KEYS[4])
end
return sets and 1 or 0
