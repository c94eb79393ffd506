#!lua flags=allow-oom
--! script   barrier.reset
--! version  1
--! keys     barrier:hash arrivals:zset receipt:string
--! args     channel:str calls:int receipt_ms:int
--! returns  1 = it was broken, or somebody waited | 0 = it was fresh
--! retry    safe: leaves a receipt, so that a repetition spares who came since

--! include lib.whole
--! include lib.receipt

-- Who waits finds its generation neither present nor released, which is as good as broken.
local barrier, arrivals, receipt = KEYS[1], KEYS[2], KEYS[3]
local channel, calls, receipt_ms = ARGV[1], whole(ARGV[2], 1), whole(ARGV[3], 1)

if not (calls and receipt_ms) then
  return redis.error_reply('ERR calls and receipt_ms must be positive integers')
end
-- Reading them as what they are refuses, with WRONGTYPE, to delete what is no barrier.
redis.call('HLEN', barrier)
redis.call('ZCARD', arrivals)
local seen = served(receipt, calls)
if seen then
  return tonumber(seen) or 0
end

local found = redis.call('DEL', barrier, arrivals)
local reply = math.min(1, found)
redis.call('SET', receipt, string.format('%.0f %.0f', calls, reply), 'PX', receipt_ms)
if reply == 1 then
  redis.call('PUBLISH', channel, '0')
end
return reply
