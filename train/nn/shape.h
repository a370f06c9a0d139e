// ModelShape: input and output sizes of a model. It is not in model.h, because torch::nn there costs every file that
// includes it 4 s.
#pragma once

#include <cstdint>

namespace penstock {

/// What a model is built for: N x channels x height x width in, N x classes logits out.
struct ModelShape {
  int64_t channels = 1, height = 28, width = 28, classes = 10;
};

}  // namespace penstock
