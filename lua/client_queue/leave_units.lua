#!lua flags=allow-oom
--! script   client_queue.leave_units
--! version  3
--! keys     counter:string clients:zset
--! args     client:str channel:str
--! returns  1 = it has left | 0 = it was not there
--! retry    safe: what is not there does not leave again

--! include lib.integer
--! include lib.wanted_units
--! include lib.call_units
--! include lib.keep_calls

-- As client_queue.leave, for a client that waits for units of a semaphore: those behind it are called
-- for what is free.
local counter, clients = KEYS[1], KEYS[2]
local client, channel = ARGV[1], ARGV[2]

local was_there = redis.call('ZSCORE', clients, client)
local free = redis.pcall('GET', counter)
free = type(free) == 'string' and integer(free) or 0
local work = call_units(clients, channel, free, client)
local told = math.min(free, 2147483647)
if told > 0 and not work.called[1] then
  redis.pcall('PUBLISH', channel, string.format('0%.0f', told))
end
local refused = redis.pcall('ZREM', clients, client, '>' .. client)
if type(refused) == 'table' then
  return refused
end
keep_calls(clients, work)
return was_there and 1 or 0
