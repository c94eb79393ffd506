#!lua flags=allow-oom
--! script   permit.renew
--! version  5
--! keys     permits...:zset
--! args     lease_ms:int idle_ms:int fields...:str
--! returns  array: for each permit 1 = renewed | 0 = not there, void, or its lease is over
--! retry    safe: only ever moves an end outward

--! include lib.whole
--! include lib.now
--! include lib.follow
--! include lib.keep

-- What is over is never brought back to life: anybody may be giving it back already. pcall as in
-- lock.renew. The ZREM removes nothing: below Redis 7 a full server takes ZADD only in a script
-- that has written already. A longer lease ends a millisecond later, so that it is written: replicas
-- confirm what was written, see lua/README.md. What never ends stays so: it is Redisson's.
--
-- Behind the sorted sets, one a field, may come as many counters, and then as many hashes of
-- units (the sorted sets again where there are none): see lib/follow, and lib/keep for idle_ms.
-- Without them only leases are renewed. With them a permit is void whose counter or whose units have
-- vanished; one whose lease alone has vanished gets another, because its units are still taken.
local lease_ms, idle_ms = whole(ARGV[1], 1), whole(ARGV[2], 0)

if not (lease_ms and idle_ms) then
  return redis.error_reply('ERR lease_ms must be a positive integer, idle_ms a whole number')
end

local present = now()
local renewed, exists, followed, fields = {}, {}, {}, #ARGV - 2
if #KEYS ~= fields and #KEYS ~= 3 * fields then
  return redis.error_reply('ERR each field has one key, or three')
end
for i, permits in ipairs(KEYS) do
  if i > fields then
    break
  end
  local counter, counts = KEYS[fields + i], KEYS[2 * fields + i]
  local ends_at = redis.pcall('ZSCORE', permits, ARGV[i + 2])
  if type(ends_at) == 'table' and not string.find(ends_at.err, 'WRONGTYPE', 1, true) then
    return ends_at
  end
  local alive = type(ends_at) == 'string' and tonumber(ends_at) > present
  if counter and exists[counter] == nil then
    exists[counter] = redis.call('EXISTS', counter) == 1
  end
  if counter and counts ~= permits and type(ends_at) ~= 'table' then
    local has = redis.pcall('HEXISTS', counts, ARGV[i + 2])
    if type(has) == 'table' and not string.find(has.err, 'WRONGTYPE', 1, true) then
      return has
    end
    alive = has == 1 and (alive or not ends_at)
  end
  renewed[i] = 0
  if alive and (not counter or exists[counter]) then
    renewed[i] = 1
    ends_at = math.max(tonumber(ends_at or '0') + 1, present + lease_ms)
    if ends_at < 922337203685477 then
      redis.call('ZREM', permits, '')
      redis.call('ZADD', permits, string.format('%.0f', ends_at), ARGV[i + 2])
    end
    if counter and not followed[permits] then
      followed[permits] = true
      keep(counter, permits, idle_ms)
      follow(counter, permits, counts)
    end
  end
end
return renewed
