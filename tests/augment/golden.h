// What tests of golden values share: a JSON file of tests/golden, its pictures, and levels in the order of its values.
#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "augment/plan/plan.h"
#include "tests/augment/pictures.h"

namespace penstock::test {

inline nlohmann::json read_golden(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(PENSTOCK_ROOT "/tests/golden/" + name));
}

inline OwnedPicture golden_picture(const nlohmann::json& golden, const std::string& name) {
  const auto& stored = golden["pictures"][name];
  OwnedPicture picture;
  picture.pixels = stored["pixels"].get<std::vector<uint8_t>>();
  const int height = stored["height"], width = stored["width"];
  const int channels = static_cast<int>(picture.pixels.size()) / (height * width);
  picture.view = {.pixels = picture.pixels.data(),
                  .row_stride = static_cast<ptrdiff_t>(width) * channels,
                  .height = height,
                  .width = width,
                  .channels = channels};
  return picture;
}

/// The levels, H x W x C, which is the order of the expected values.
inline std::vector<float> levels_of(const Picture& picture, const Plan& plan) {
  const auto bytes = rendered(picture, plan, kLevels, Layout::kF32Nchw);
  const size_t plane = static_cast<size_t>(plan.output_height) * plan.output_width;
  std::vector<float> planes(plane * picture.channels), out(planes.size());
  std::memcpy(planes.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = planes[i % picture.channels * plane + i / picture.channels];
  return out;
}

}  // namespace penstock::test
