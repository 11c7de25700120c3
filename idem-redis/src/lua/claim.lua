-- Grants a new operation; what is there already is the caller's to decide.
-- ARGV: now, attempt id, lease in milliseconds, fingerprint, what the grant carries
local now = clock()
local found = redis.call('HGETALL', key)
if #found > 0 or now >= LATEST then
  return {0, now, found}
end
local head = struct.pack('>BBBI8I8I8BI8I2', FORMAT, PROCESSING, FORGETTABLE, 1, now, plus(now, ARGV[3]), 0, 0, 0)
  .. string.rep('\0', 24) .. ARGV[2]
  .. struct.pack('>I8I4BI8I8I8I8I8', math.max(1, now), 1, 0, now, now + 1, now, 0, 0)
redis.call('HSET', key, 'h', head, 'f', ARGV[4], 'g', ARGV[5])
return {1, now}
