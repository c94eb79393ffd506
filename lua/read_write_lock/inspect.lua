--! script   read_write_lock.inspect
--! version  4
--! keys     lock:hash clients:zset
--! args
--! returns  array: milliseconds left (-2 = free, -1 = no lease), the mode, how many words follow for the holders, then field, hold count and milliseconds left (-2 = over, or the writer) of each in turn, then of each client that waits what lock.inspect says
--! retry    safe: reads only
--! computes lease keys of readers

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left

local lock, clients = KEYS[1], KEYS[2]

local found = {redis.call('PTTL', lock), redis.call('HGET', lock, 'mode') or ''}
local readers = redis.call('HGETALL', lock)
for i, text in ipairs(readers) do
  local count = i % 2 == 0 and whole(text, 1)
  if count then
    local field = readers[i - 1]
    found[#found + 1] = field
    found[#found + 1] = count
    found[#found + 1] = reader_left(lock, field, count)
  end
end
table.insert(found, 3, #found - 2)
local time = redis.call('TIME')
local present = time[1] * 1000000 + time[2]
-- For the entries of the queue see lib/sides_front.
local waiting, called = redis.pcall('ZRANGE', clients, '0', '-1', 'WITHSCORES'), {}
for i, score in ipairs(waiting) do
  local member, moment = waiting[i - 1], tonumber(score)
  if i % 2 == 0 and string.sub(member, 1, 1) == '>' then
    called[string.sub(member, 2)] = math.max(0, math.floor((present + moment) / 1000))
  elseif i % 2 == 0 and string.sub(member, 1, 1) ~= '<' then
    local joined = moment < 1500000000000000 and moment + 1500000000000000 or moment
    found[#found + 1] = member
    found[#found + 1] = math.max(0, math.floor((present - joined) / 1000))
    found[#found + 1] = called[member] or -1
  end
end
return found
