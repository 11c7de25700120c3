-- ARGV: now, attempt id, lease in milliseconds
local now = clock()
local it = held(ARGV[2])
if not it or it.state ~= PROCESSING then
  return undecided(now)
end
it.lease = math.max(it.lease, plus(now, ARGV[3]))
redis.call('PERSIST', key)
redis.call('HSET', key, 'h', headed(it, now))
return {1, now, it.lease}
