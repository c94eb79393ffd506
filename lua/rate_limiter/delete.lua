#!lua flags=allow-oom
--! script   rate_limiter.delete
--! version  1
--! keys     config:hash value:string client_value:string permits:zset client_permits:zset receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = deleted | 0 = there was none
--! retry    safe: leaves a receipt, so that a repetition spares what was set since

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt
--! include lib.spare_others

-- Those that wait look again. Records of other clients that have a limit each stay, and end by themselves.
local config, receipt = KEYS[1], KEYS[6]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)
if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
-- Reading as a hash refuses, with WRONGTYPE, to delete what is not a rate limiter.
redis.call('HGET', config, 'type')
spare_others(KEYS[2], KEYS[3], KEYS[4], KEYS[5])
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end
local there = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]) > 0 and 1 or 0
if there == 1 then
  redis.call('PUBLISH', channel, '1')
end
leave_receipt(receipt, calls, string.format('%.0f', there), receipt_ms)
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return there
