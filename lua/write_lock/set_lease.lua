#!lua flags=allow-oom
--! script   write_lock.set_lease
--! version  1
--! keys     lock:hash
--! args     owner:str lease_ms:int
--! returns  1 = set | 0 = not the writer
--! retry    safe: sets a length counted from now, never adds to one

--! include lib.whole
--! include lib.reader_key
--! include lib.reader_keys
--! include lib.reader_left
--! include lib.needed_by_readers

-- As lock.set_lease, but a writer that also reads may have a longer lease for that.
local lock = KEYS[1]
local owner, lease_ms = ARGV[1], whole(ARGV[2], 1)

if not lease_ms then
  return redis.error_reply('ERR lease_ms must be a positive integer')
end
if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
redis.call('PEXPIRE', lock, math.max(lease_ms, needed_by_readers(lock, math.huge)))
return 1
