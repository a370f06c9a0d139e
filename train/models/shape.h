// ModelShape: what a model takes and gives. Apart from model.h, whose torch::nn costs every file that sees it 4 s.
#pragma once

#include <cstdint>

namespace penstock {

/// What a model is built for: N x channels x height x width in, N x classes logits out.
struct ModelShape {
  int64_t channels = 1, height = 28, width = 28, classes = 10;
};

}  // namespace penstock
