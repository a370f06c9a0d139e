// What a list of transforms is refused with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "augment/transform.h"
#include "core/error.h"

namespace penstock::test {

inline std::string refusal(const std::string& spec, const DataStatistics& statistics = {}) {
  try {
    Pipeline(spec, statistics);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.what();
    return error.what();
  }
  return "accepted: " + spec;
}

}  // namespace penstock::test
