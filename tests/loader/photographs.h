// The photographs that decoders are compared over.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

namespace penstock::testing_data {

/// Every `stride`-th photograph of the data folder, in the order of their names. Where there are none, says so in one
/// line and returns nothing; where PENSTOCK_DATA names the folder, that fails the test.
inline std::vector<std::filesystem::path> photographs(size_t stride) {
  const char* data = std::getenv("PENSTOCK_DATA");
  const auto folder = std::filesystem::path(data ? data : PENSTOCK_ROOT "/../shared/data") / "imagenet-sample";
  if (!std::filesystem::is_directory(folder)) {
    EXPECT_EQ(data, nullptr) << "PENSTOCK_DATA has no " << folder;
    std::cerr << folder << " is not there: no photograph was compared (PENSTOCK_DATA names another place)\n";
    return {};
  }
  std::vector<std::filesystem::path> all, chosen;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 199U);
  for (size_t i = 0; i < all.size(); i += stride) chosen.push_back(all[i]);
  return chosen;
}

}  // namespace penstock::testing_data
