-- Stores a new intent; what is there already is the caller's to decide.
-- ARGV: now, fingerprint, what a grant would carry, and the payload if there is one
local now = clock()
local found = redis.call('HGETALL', key)
if #found > 0 then
  return {0, now, found}
end
local head = struct.pack('>BBBI8I8I8BI8I2', FORMAT, RECEIVED, REGISTERED, 1, now, 0, 0, 0, 0)
  .. string.rep('\0', 24 + 16 + 8 + 4 + 1 + 8 + 8) .. struct.pack('>I8I8I8', now, 0, 0)
redis.call('HSET', key, 'h', head, 'f', ARGV[2], 'g', ARGV[3])
if ARGV[4] then
  redis.call('HSET', key, 'p', ARGV[4])
end
return {1, now}
