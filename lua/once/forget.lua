#!lua flags=allow-oom
--! script   once.forget
--! version  1
--! keys     record:hash receipt:string
--! args     calls:int receipt_ms:int
--! returns  1 = forgotten | 0 = it was not done
--! retry    safe: leaves a receipt, so that a repetition forgets no later result

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt

-- Who runs it now is not touched, and may complete it.
local record, receipt = KEYS[1], KEYS[2]
local calls, receipt_ms = whole(ARGV[1], 1), whole(ARGV[2], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end
-- A key of another type is an error that changes nothing.
redis.call('HLEN', record)
local reply = redis.call('EXISTS', record)
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
redis.call('DEL', record)
return reply
