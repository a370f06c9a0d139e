// The device's renderer: rows of raw pixels, which lie on the device as they are stored, are the loader's to the bit.
#include <gtest/gtest.h>

#include <vector>

#include "core/text.h"
#include "tests/augment/pictures.h"
#include "tests/loader/device_pictures.h"
#include "tests/support/case_stride.h"

namespace penstock {
namespace {

using testing_data::CpuDevice;
using testing_data::DeviceRow;

/// Raw pixels on a device, with those of another picture before and after them, and a row of any plan.
struct RandomRawRow {
  RandomRawRow(int height, int width, int channels, Rng& rng) : row{0, test::random_plan(height, width, rng)} {
    for (auto* picture : {&before, &pixels, &after}) {
      picture->resize(static_cast<size_t>(height * width * channels));
      for (uint8_t& level : *picture) level = static_cast<uint8_t>(rng.next() >> 24);
    }
    const auto sample = [&](const std::vector<uint8_t>& bytes) {
      return Sample{.extent = {height, width, channels}, .encoding = Encoding::kRaw, .bytes = bytes};
    };
    device.add(sample(before));
    row.picture = device.add(middle = sample(pixels));
    device.add(sample(after));
  }

  std::vector<uint8_t> before, pixels, after;
  Sample middle;
  CpuDevice device;
  DeviceRow row;
};

TEST(DeviceRendererTest, RowsOfRawPixelsAreTheLoadersToTheBit) {
  for (uint64_t trial = 0; trial < 900; trial += kCaseStride) {
    SCOPED_TRACE(concat("trial ", trial));
    Rng rng(53, 0, trial, 0);
    const int height = rng.between(1, 60), width = rng.between(1, 60), channels = trial % 3 == 0 ? 1 : 3;
    RandomRawRow one(height, width, channels, rng);
    if (trial % 4 == 0) testing_data::add_random_steps(one.row.plan, rng);
    const int output_channels = rng.chance(0.3) ? 3 : channels;
    testing_data::expect_loaders_row(one.device, one.middle, one.row, output_channels, /*scales_dct=*/false,
                                     Normalization::of({0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
