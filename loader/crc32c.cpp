// CRC-32C by ISA-L (carry-less multiplication where the processor has it; about 20 GB/s).
#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

#include "loader/shard.h"

namespace penstock {

uint32_t crc32c(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  while (!bytes.empty()) {
    // ISA-L takes the length as an int and does not write, though its parameter is not const.
    const size_t count = std::min<size_t>(bytes.size(), std::numeric_limits<int>::max());
    crc = crc32_iscsi(const_cast<uint8_t*>(bytes.data()), static_cast<int>(count), crc);
    bytes = bytes.subspan(count);
  }
  return crc ^ 0xFFFFFFFF;
}

}  // namespace penstock
