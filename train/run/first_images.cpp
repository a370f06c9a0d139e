// First images: one batch of a loader.
#include "train/run/first_images.h"

#include <algorithm>

#include "core/error.h"
#include "loader/loader.h"
#include "train/batch_tensors.h"

namespace penstock {

torch::Tensor first_images(const Setup& setup, int64_t count) {
  const auto& options = setup.options;
  const bool is_local = shuffle_of(options) == Shuffle::kRankLocal && !setup.world.has_rank_threads;
  const int ranks = is_local ? setup.world.mesh.data : 1;
  const int rank = is_local ? setup.world.mesh.data_rank(setup.world.rendezvous.rank) : 0;
  const auto sample_count = static_cast<int64_t>(setup.data.train->size());
  Loader loader(setup.data.train, *setup.eval_pipeline,
                {.workers = 0,
                 .prefetch = 1,
                 .batch_size = std::min(count * ranks, sample_count),
                 .rank = rank,
                 .world_size = ranks,
                 .shuffle = is_local ? Shuffle::kRankLocal : Shuffle::kNone,
                 .decode = decode_of(options)});
  loader.start_epoch(0);
  auto batch = loader.next();
  if (!batch) throw bug_error("a data set without a first batch; expected one");
  const auto tensors = view_tensors(*batch);
  return tensors.images.index({tensors.weights > 0}).clone();
}

}  // namespace penstock
