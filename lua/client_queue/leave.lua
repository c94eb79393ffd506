#!lua flags=allow-oom
--! script   client_queue.leave
--! version  1
--! keys     lock:hash clients:zset
--! args     client:str channel:str
--! returns  1 = it has left | 0 = it was not there
--! retry    safe: what is not there does not leave again

--! include lib.front
--! include lib.call_next
--! include lib.mark_called
--! include lib.leave_queue

-- A client that waits for a lock gives up. If the lock is free and nobody else was called, the next
-- one is.
local lock, clients = KEYS[1], KEYS[2]
local client, channel = ARGV[1], ARGV[2]

local was_there = redis.call('ZSCORE', clients, client)
leave_queue(clients, channel, client)
local _, _, called = front(clients)
if not called and redis.call('EXISTS', lock) == 0 then
  local next_one = call_next(clients, channel)
  if next_one then
    mark_called(clients, next_one)
  end
end
return was_there and 1 or 0
