// evaluate(): loss and accuracy over a data set; every sample counts once, for any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "train/comm/comm.h"
#include "train/feeder.h"
#include "train/strategies/strategy.h"
#include "train/test_views.h"

namespace penstock {

struct Evaluation {
  int64_t sample_count = 0;
  double loss = 0, accuracy = 0;
  std::vector<std::optional<double>> class_accuracy;  ///< One entry per class; nothing for a class without samples.
};

/// Collective: every rank calls it with its part of the data and gets the same result. Padding and substituted rows do
/// not count. `pass` is the epoch for which the feeder is started. `on_batch` is called with every batch and its
/// logits, which are undefined at a rank that does not hold the last stage. Logits are means over `views`.
Evaluation evaluate(Strategy& strategy, Comm& comm, Feeder& feeder, int64_t class_count, const torch::Device& device,
                    int64_t pass, const std::function<void(const DeviceBatch&, const torch::Tensor&)>& on_batch = {},
                    TestViews views = TestViews::kNone);

}  // namespace penstock
