--! script   expirable_semaphore.inspect
--! version  3
--! keys     counter:string permits:zset
--! args     holders:int
--! returns  array: how many are available ('' = no such semaphore), how many holders there are, then id and ms left (-1 = for ever) in turn
--! retry    safe: reads only

--! include lib.whole
--! include lib.now

local counter, permits = KEYS[1], KEYS[2]
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
  local id, ends_at = rows[2 * i - 1], tonumber(rows[2 * i])
  if not id then
    break
  end
  found[2 * i + 1] = id
  found[2 * i + 2] = ends_at == 922337203685477 and -1 or math.max(0, ends_at - present)
end
return found
