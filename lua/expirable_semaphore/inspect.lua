--! script   expirable_semaphore.inspect
--! version  5
--! keys     counter:string permits:zset clients:zset
--! args     holders:int
--! returns  array: how many are available ('' = no such semaphore), how many holders there are, how many words follow for them, id and ms left (-1 = for ever) in turn, then who waits: see semaphore.inspect
--! retry    safe: reads only

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.add_waiting

-- A permit whose lease is over counts as free, and whoever acquires gives it back.

local counter, permits, clients = KEYS[1], KEYS[2], KEYS[3]
local holders = whole(ARGV[1], 1)

if not holders then
  return redis.error_reply('ERR holders must be a positive integer')
end

local free, present = redis.call('GET', counter), now()
local last = string.format('%.0f', present)
local gone = redis.call('ZCOUNT', permits, '-inf', last)
local value = gone > 0 and integer(free or '')
if value then
  free = string.format('%.0f', value + gone)
end
local found = {free or '', redis.call('ZCARD', permits) - gone}
local rows = redis.call(
  'ZRANGEBYSCORE', permits, '(' .. last, '+inf', 'WITHSCORES', 'LIMIT', '0', string.format('%.0f', holders)
)
for i = 1, holders do
  local id, ends_at = rows[2 * i - 1], tonumber(rows[2 * i])
  if not id then
    break
  end
  found[2 * i + 1] = id
  found[2 * i + 2] = ends_at == 922337203685477 and -1 or ends_at - present
end
table.insert(found, 3, #found - 2)
add_waiting(found, clients)
return found
