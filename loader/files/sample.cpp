// Sample: CRC-32C by ISA-L (carry-less multiplication where the processor has it; about 20 GB/s).
#include "loader/files/sample.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/bytes.h"

namespace penstock {

uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t before) {
  uint32_t crc = before ^ 0xFFFFFFFF;
  while (!bytes.empty()) {
    // ISA-L takes the length as an int, and does not write although its parameter is not const.
    const size_t count = std::min<size_t>(bytes.size(), std::numeric_limits<int>::max());
    crc = crc32_iscsi(const_cast<uint8_t*>(bytes.data()), static_cast<int>(count), crc);
    bytes = bytes.subspan(count);
  }
  return crc ^ 0xFFFFFFFF;
}

uint32_t sample_checksum(const Sample& sample) {
  std::array<uint8_t, 8 + 8 + 3 * 2 + 1> columns;
  uint8_t* next = columns.data();
  const auto put = [&next](auto value) {
    std::memcpy(next, &value, sizeof value);
    next += sizeof value;
  };
  put(sample.id);
  put(sample.label);
  for (const int side : {sample.extent.height, sample.extent.width, sample.extent.channels})
    put(static_cast<uint16_t>(side));
  put(static_cast<uint8_t>(sample.encoding));
  uint32_t crc = crc32c(columns, crc32c(sample.bytes));
  if (sample.orientation != 1) crc = crc32c({&sample.orientation, 1}, crc);
  if (!sample.seek_index.empty()) crc = crc32c(sample.seek_index, crc);
  if (!sample.path.empty()) crc = crc32c(as_bytes(sample.path), crc);
  return crc;
}

}  // namespace penstock
