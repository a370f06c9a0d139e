// mended_end(): goes from marker to marker until the end of the picture.
#include "loader/jpeg/entropy/mend_end.h"

#include <algorithm>

namespace penstock::detail {

std::vector<uint8_t> mended_end(std::span<const uint8_t> jpeg, size_t scan_begin) {
  constexpr uint8_t kFill = 0xFF, kRestart0 = 0xD0, kRestart7 = 0xD7, kEnd = 0xD9;
  size_t at = scan_begin;
  for (;;) {
    const size_t first = static_cast<size_t>(
        std::find(jpeg.begin() + static_cast<std::ptrdiff_t>(at), jpeg.end(), kFill) - jpeg.begin());
    at = first;
    while (at < jpeg.size() && jpeg[at] == kFill) ++at;
    if (at == jpeg.size()) {
      std::vector<uint8_t> ended(jpeg.begin(), jpeg.end());
      ended.insert(ended.end(), {kFill, kEnd});
      return ended;
    }
    const uint8_t marker = jpeg[at++];
    if (marker == kEnd) {
      // In FF 00 the 0 belongs to the FF.
      const bool has_zero = first >= scan_begin + 2 && jpeg[first - 1] == 0 && jpeg[first - 2] != kFill;
      if (!has_zero) return {};
      std::vector<uint8_t> mended(jpeg.begin(), jpeg.end());
      mended.erase(mended.begin() + static_cast<std::ptrdiff_t>(first) - 1);
      return mended;
    }
    if (marker == 0 || (marker >= kRestart0 && marker <= kRestart7)) continue;
    if (at + 2 > jpeg.size()) return {};  // cut in a segment between scans
    at += std::min<size_t>(size_t{jpeg[at]} << 8 | jpeg[at + 1], jpeg.size() - at);
  }
}

}  // namespace penstock::detail
