// ForcedTarget: one of the instruction sets, until the end of a test.
#pragma once

#include <string>

#include "augment/kernels/render_job.h"

namespace penstock::test {

struct ForcedTarget {
  explicit ForcedTarget(const std::string& name) { detail::force_render_target(name); }
  ~ForcedTarget() { detail::force_render_target(""); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

}  // namespace penstock::test
