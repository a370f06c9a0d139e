// The blocks of a picture from an untrusted source that say how it has to be turned. The first byte says what the rest
// is: a PNG, whose CRCs are made right, because no input would guess them; an EXIF block; or an XMP packet.
#include <zlib.h>

#include "loader/codecs/png_metadata.h"
#include "loader/files/orientation.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace penstock {
namespace {

uint32_t big_endian(const uint8_t* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | at[i];
  return value;
}

void fix_chunk_checksums(std::span<uint8_t> png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    const size_t length = big_endian(&png[at]);
    if (length > png.size() - at - 12) return;
    const auto checksum = static_cast<uint32_t>(crc32_z(0, &png[at + 4], 4 + length));
    for (size_t i = 0; i < 4; ++i) png[at + 8 + length + i] = static_cast<uint8_t>(checksum >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  int orientation = 1;
  if (data[0] % 3 == 0) {
    fix_chunk_checksums(bytes);
    const auto found = detail::read_png_metadata(bytes);
    orientation = detail::stored_orientation(found.exif, found.xmp);
  } else if (data[0] % 3 == 1) {
    orientation = detail::stored_orientation(bytes, {});
  } else {
    orientation = detail::stored_orientation({}, bytes);
  }
  if (orientation < 1 || orientation > 8) std::abort();
  return 0;
}
