#!lua flags=allow-oom
--! script   client_queue.leave
--! version  2
--! keys     lock:hash clients:zset
--! args     client:str channel:str
--! returns  1 = it has left | 0 = it was not there
--! retry    safe: what is not there does not leave again

--! include lib.front
--! include lib.call_next
--! include lib.mark_called
--! include lib.leave_queue

-- A client that waits for a lock gives up. If the lock is free and nobody else was called, the next
-- one is. If there is none, others are woken: see lib/wake_foreign.
local lock, clients = KEYS[1], KEYS[2]
local client, channel = ARGV[1], ARGV[2]

local was_there = redis.call('ZSCORE', clients, client)
local refused = leave_queue(clients, channel, client)
if type(refused) == 'table' then
  return refused
end
local _, _, called = front(clients)
if not called and redis.call('EXISTS', lock) == 0 then
  local next_one = call_next(clients, channel)
  if next_one then
    mark_called(clients, next_one)
  else
    redis.pcall('PUBLISH', channel, '00')
  end
end
-- What only clients that wait need.
local entry = redis.call('ZRANGE', clients, '0', '0')[1]
if entry and string.sub(entry, 1, 1) == '<' then
  redis.call('ZREM', clients, entry)
end
return was_there and 1 or 0
