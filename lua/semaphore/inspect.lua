--! script   semaphore.inspect
--! version  6
--! keys     counter:string permits:zset counts:hash clients:zset
--! args     holders:int
--! returns  array: how many are available ('' = no such semaphore), how many holders there are, how many words follow for them, owner, units and ms left in turn, then of each client that waits, in order, its name, ms since it joined, and ms since it was called (-1 = it was not)
--! retry    safe: reads only

--! include lib.whole
--! include lib.integer
--! include lib.now
--! include lib.expired
--! include lib.add_waiting

-- Whose lease is over holds nothing: its units count as free, and whoever acquires gives them back.
-- Each such holder is a command, so their number is bounded: nobody else is served meanwhile.

local counter, permits, counts, clients = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holders = whole(ARGV[1], 1)

if not holders then
  return redis.error_reply('ERR holders must be a positive integer')
end

local free, present = redis.call('GET', counter), now()
local last = string.format('%.0f', present)
local gone = redis.call('ZCOUNT', permits, '-inf', last)
local value = gone > 0 and integer(free or '')
if value then
  local _, units = expired(permits, counts, present, math.min(gone, 10000))
  free = string.format('%.0f', value + units)
end
local found = {free or '', redis.call('ZCARD', permits) - gone}
local rows = redis.call(
  'ZRANGEBYSCORE', permits, '(' .. last, '+inf', 'WITHSCORES', 'LIMIT', '0', string.format('%.0f', holders)
)
for i = 1, holders do
  local owner, ends_at = rows[2 * i - 1], rows[2 * i]
  if not owner then
    break
  end
  found[3 * i] = owner
  found[3 * i + 1] = redis.call('HGET', counts, owner) or '0'
  found[3 * i + 2] = ends_at - present
end
table.insert(found, 3, #found - 2)
add_waiting(found, clients)
return found
