-- Puts a record in place of the one that was looked at.
-- ARGV: now, the instant of the decision, how long that holds in milliseconds, version and fence that were looked at
-- ('' is absence), the expiry ('' none, 'x' removes the record), how many fields to set, names and values, names to
-- delete
local now = clock()
local head = redis.call('HGET', key, 'h')
local seen = ''
if head then
  seen = string.sub(head, 4, 11) .. string.sub(head, 79, 86)
elseif redis.call('EXISTS', key) == 1 then
  return undecided(now)
end
local age = now - tonumber(ARGV[2])
if seen ~= ARGV[4] or age < 0 or age > tonumber(ARGV[3]) then
  return undecided(now)
end
if ARGV[5] == 'x' then
  redis.call('DEL', key)
  return {1, now}
end
if ARGV[5] == '' then
  redis.call('PERSIST', key)
end
local at = 7
for _ = 1, tonumber(ARGV[6]) do
  redis.call('HSET', key, ARGV[at], ARGV[at + 1])
  at = at + 2
end
while ARGV[at] do
  redis.call('HDEL', key, ARGV[at])
  at = at + 1
end
if ARGV[5] ~= '' then
  redis.call('PEXPIREAT', key, ARGV[5])
end
return {1, now}
