#!lua flags=allow-oom
--! script   latch.count
--! version  5
--! keys     latch:string start:string
--! args     counts:int channel:str receipt_ms:int
--! returns  int = what is left; 0 or less = open | array = what is left, and milliseconds until the latch ends
--! retry    safe: leaves a receipt, so that a repetition sets nothing

--! include lib.whole
--! include lib.integer
--! include lib.remember

-- Reads what is left, and when a latch with an end is unset: nobody is told then, so who waits asks
-- again at that moment. With `counts` an unset latch is set first, once for all calls with one
-- `start`: a repetition would set it again when others have counted it down to nothing, and
-- then nobody would count.
local latch, start = KEYS[1], KEYS[2]
local counts, channel, receipt_ms = whole(ARGV[1], 0), ARGV[2], whole(ARGV[3], 1)

if not (counts and receipt_ms) then
  return redis.error_reply('ERR counts and receipt_ms must be whole numbers')
end
local text = redis.call('GET', latch)
local left = integer(text or '0')
if not left then
  return redis.error_reply('ERR the count of this latch is not a number')
end
local ends = left > 0 and text and redis.call('PTTL', latch) or -1
local answer = left
if ends >= 0 then
  answer = {left, ends}
end
if counts == 0 or redis.call('EXISTS', start) == 1 then
  return answer
end

if not text then
  -- The message comes first because it may be refused, and then nothing has changed.
  redis.call('PUBLISH', channel, '1')
end
remember(start, '1', receipt_ms)
if text then
  return answer
end
redis.call('SET', latch, string.format('%.0f', counts))
return counts
