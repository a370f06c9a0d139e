// storage_text(): what the storage gave and could give, in words.
#include <cmath>

#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/disk.h"

namespace penstock {
namespace {

constexpr double kUsedUp = 0.9;  // share of what the storage gives; the rest is noise and file headers

std::string bytes_of(double bytes) { return byte_text(static_cast<uint64_t>(std::llround(bytes))); }

}  // namespace

std::string storage_text(double most, double images_per_second, double image_bytes) {
  const double got = images_per_second * image_bytes;
  const std::string images = image_bytes > 0 ? " in images of " + bytes_of(image_bytes) : "";
  if (most <= 0)
    return "the loader waited for the storage" + (got > 0 ? concat(", which gave ", bytes_of(got), "/s", images) : "");
  const bool is_used_up = got <= 0 || got >= kUsedUp * most;
  return concat(bytes_of(most), "/s is what the storage gives",
                is_used_up ? "" : concat(", ", bytes_of(got), "/s of it"), images);
}

}  // namespace penstock
