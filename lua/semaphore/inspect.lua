--! script   semaphore.inspect
--! version  3
--! keys     counter:string permits:zset counts:hash
--! args     holders:int
--! returns  array: how many are available ('' = no such semaphore), how many holders there are, then owner, units and ms left in turn
--! retry    safe: reads only

--! include lib.whole
--! include lib.now

local counter, permits, counts = KEYS[1], KEYS[2], KEYS[3]
local holders = whole(ARGV[1], 1)

if not holders then
  return redis.error_reply('ERR holders must be a positive integer')
end

local found = {redis.call('GET', counter) or '', redis.call('ZCARD', permits)}
local present = now()
local rows = redis.call(
  'ZRANGEBYSCORE', permits, '-inf', '+inf', 'WITHSCORES', 'LIMIT', '0', string.format('%.0f', holders)
)
for i = 1, holders do
  local owner, ends_at = rows[2 * i - 1], rows[2 * i]
  if not owner then
    break
  end
  found[3 * i] = owner
  found[3 * i + 1] = redis.call('HGET', counts, owner) or '0'
  found[3 * i + 2] = math.max(0, ends_at - present)
end
return found
