#!lua flags=allow-oom
--! script   semaphore.delete
--! version  5
--! keys     counter:string permits:zset counts:hash receipt:string total:string clients:zset
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = deleted | 0 = there was no such semaphore
--! retry    safe: leaves a receipt, so that a repetition spares what was made since

--! include lib.whole
--! include lib.receipt
--! include lib.leave_receipt

-- What is taken is void: its holders find nothing to renew or to give back. The message, of one
-- permit that is not there, has waiters look: ours then know that there is no semaphore, those that
-- bring a number of permits make a new one, and Redisson's wait on. It comes first because it may be
-- refused, and then nothing has changed.
local counter, permits, counts, receipt, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clients = KEYS[6]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
-- Reading them refuses, with WRONGTYPE, to delete what is not a semaphore.
local found = redis.call('GET', counter)
redis.call('ZCARD', permits)
redis.call('HLEN', counts)
local answer = served(receipt, calls)
if answer then
  return tonumber(answer) or 0
end

local reply = found and 1 or 0
if found then
  redis.call('PUBLISH', channel, '1')
  local waiting = redis.pcall('ZRANGE', clients, '0', '-1')
  for _, member in ipairs(waiting) do
    local own = channel .. ':' .. member
    redis.pcall('PUBLISH', own, '0')
  end
end
redis.call('DEL', counter, permits, counts, total)
leave_receipt(receipt, calls, string.format('%.0f', reply), receipt_ms)
return reply
