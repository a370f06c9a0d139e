// Counting feeder: batches of which only the number of samples is known.
#pragma once

#include <memory>

#include "train/feed/feeder.h"

namespace penstock {

/// For a rank that needs no images: the batches of the loader with these options as counts, without tensors.
std::unique_ptr<Feeder> make_counting_feeder(const Dataset& dataset, const LoaderOptions& options);

}  // namespace penstock
