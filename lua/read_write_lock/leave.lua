#!lua flags=allow-oom
--! script   read_write_lock.leave
--! version  1
--! keys     lock:hash clients:zset
--! args     client:str channel:str
--! returns  1 = it has left | 0 = it was not there
--! retry    safe: what is not there does not leave again

--! include lib.sides_front
--! include lib.call_sides
--! include lib.mark_sides
--! include lib.leave_sides

-- As client_queue.leave, for one side of a read-write lock.
local lock, clients = KEYS[1], KEYS[2]
local client, channel = ARGV[1], ARGV[2]

local was_there = redis.call('ZSCORE', clients, client)
local refused = leave_sides(clients, channel, client)
if type(refused) == 'table' then
  return refused
end
local _, _, notes = sides_front(clients)
if notes == 0 and redis.call('EXISTS', lock) == 0 then
  local called = call_sides(clients, channel)
  mark_sides(clients, called)
  if not called[1] then
    redis.pcall('PUBLISH', channel, '01')
  end
end
-- What only clients that wait need.
local entry = redis.call('ZRANGE', clients, '0', '0')[1]
if entry and string.sub(entry, 1, 1) == '<' then
  redis.call('ZREM', clients, entry)
end
return was_there and 1 or 0
