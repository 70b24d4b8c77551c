-- Raises the fence of a range of hashes, or says which token is above it.
--
-- KEYS[1]  fences: a sorted set of "<edge>:<token>", each from its edge up to the next
-- ARGV[1]  first hash of the range, 16 hexadecimal digits
-- ARGV[2]  the hash behind its last one; empty for a range to the end
-- ARGV[3]  token: "<era>.<revision>" of fixed widths, so that texts compare as tokens do
local fences, first, behind, token = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local NONE = '0000000000.0000000000000000000'

-- What was raised last at an edge, or before it.
local function at(edge)
  local found = redis.call('ZREVRANGEBYLEX', fences, '(' .. edge .. ';', '-', 'LIMIT', 0, 1)[1]
  return found and string.sub(found, 18) or NONE
end

local low, high = '[' .. first, behind == '' and '+' or '(' .. behind
local highest = at(first)
for _, member in ipairs(redis.call('ZRANGEBYLEX', fences, low, high)) do
  local other = string.sub(member, 18)
  if other > highest then highest = other end
end
if highest > token then return highest end

local after = behind ~= '' and at(behind)
redis.call('ZREMRANGEBYLEX', fences, low, high)
redis.call('ZADD', fences, 0, first .. ':' .. token)
if after and redis.call('ZLEXCOUNT', fences, '[' .. behind, '(' .. behind .. ';') == 0 then
  redis.call('ZADD', fences, 0, behind .. ':' .. after)
end
return ''
