// A small data set of digits in a temporary folder, which is packed once per process and removed at its end.
#pragma once

#include <memory>

#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "tests/support/testing.h"

namespace penstock {

/// 130 grey pictures of 20 x 20 in 5 shards.
inline std::shared_ptr<const Dataset> small_dataset() {
  static const TemporaryFolder folder("small-dataset");
  static const auto dataset = [] {
    pack({.source = "digits(count=130,size=20)",
          .input = {},
          .split = "train",
          .output = folder.path(),
          .shard_count = 5});
    return Dataset::open(folder.path());
  }();
  return dataset;
}

}  // namespace penstock
