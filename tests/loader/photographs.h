// The photographs that decoders are compared over.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock::testing_data {

inline std::filesystem::path photograph_folder() {
  const char* data = std::getenv("PENSTOCK_DATA");
  return std::filesystem::path(data ? data : PENSTOCK_ROOT "/../shared/data") / "imagenet-sample";
}

/// Why a test is skipped for which photographs() found none.
inline std::string no_photographs() {
  return photograph_folder().string() +
         ": no such folder, so no photograph was compared; expected photographs there, " +
         "or in the folder imagenet-sample of PENSTOCK_DATA";
}

/// Every `stride`-th photograph of the data folder, in the order of their names. Where the folder is missing, returns
/// nothing, and fails the test if PENSTOCK_DATA names it.
inline std::vector<std::filesystem::path> photographs(size_t stride) {
  const auto folder = photograph_folder();
  if (!std::filesystem::is_directory(folder)) {
    EXPECT_EQ(std::getenv("PENSTOCK_DATA"), nullptr) << no_photographs();
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
