-- Reads the record without its body, with an empty payload in place of one that is there, and the clock.
local now = clock()
local fields = {}
for _, name in ipairs(redis.call('HKEYS', key)) do
  if name ~= 'b' then
    fields[#fields + 1] = name
    fields[#fields + 1] = name == 'p' and '' or redis.call('HGET', key, name)
  end
end
return {0, now, fields}
