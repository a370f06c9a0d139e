// A field of instance masks from an untrusted shard: the first byte says what the rest is, a field for a picture of 5 x
// 7 pixels or COCO's compressed counts. What is accepted is drawn, and comes back when it is packed again.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "loader/files/instance_masks.h"

namespace penstock {
namespace {

constexpr int kHeight = 5, kWidth = 7;

void read_field(FieldBytes bytes) {
  const InstanceMasks masks(bytes, kHeight, kWidth);
  Plan plan = Plan::identity(kHeight, kWidth);
  plan.resample({0.5, 0.25, -1, -0.25, 0.5, 2}, 9, 11);
  std::vector<uint8_t> output(9 * 11);
  std::vector<InstanceMask> all;
  for (size_t i = 0; i < masks.size(); ++i) {
    const InstanceMask& mask = all.emplace_back(masks.at(i));
    for (const auto& polygon : mask.polygons) draw_polygon(polygon, plan, output);
    if (!mask.runs.empty() && pixels_of_runs(mask.runs, kHeight, kWidth).size() != kHeight * kWidth) std::abort();
  }
  const FieldValue packed = pack_instances(all);
  const InstanceMasks again(packed, kHeight, kWidth);
  for (size_t i = 0; i < all.size(); ++i)
    if (!(again.at(i) == all[i])) std::abort();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const std::vector<uint8_t> bytes(data + 1, data + size);  // of their own, so that a read after the end is seen
  try {
    if (data[0] % 2 == 0)
      read_field(bytes);
    else
      runs_of_coco({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
  }
  return 0;
}
