// First images: the batches of a loader that makes them when they are asked for.
#include "train/run/first_images.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "train/tensor/batch_tensors.h"

namespace penstock {
namespace {

LoaderOptions first_images_options(const Setup& setup) {
  const auto& options = setup.options;
  const bool is_local = *options.shuffle == Shuffle::kRankLocal && !setup.world.has_rank_threads;
  const int ranks = is_local ? setup.world.plan.mesh.data : 1;
  const int rank = is_local ? setup.world.plan.mesh.data_rank(setup.world.rendezvous.rank) : 0;
  const auto sample_count = static_cast<int64_t>(setup.data.train->size());
  return {.workers = 0,
          .prefetch = 1,
          .batch_size = std::min(FirstImages::kBatchRows * ranks, sample_count),
          .rank = rank,
          .world_size = ranks,
          .shuffle = is_local ? Shuffle::kRankLocal : Shuffle::kGlobal,
          .subset = options.subset,
          .exclude_ids = options.exclude_ids,
          .seed = options.seed,
          .epoch_count = 1,
          // The epochs make a record of what is corrupt, and substitutes would be drawn for other positions.
          .on_corrupt = *options.on_corrupt == OnCorrupt::kFail ? OnCorrupt::kFail : OnCorrupt::kMask,
          .decode = *options.decode,
          .dct_scale = training_dct_scale(options)};
}

/// Whether some weights follow from pictures of training. None do where all come from a file.
bool begins_from_images(const Setup& setup) {
  return setup.model->initial_image_count() > 0 && !setup.checkpoint && setup.options.pretrained.empty();
}

/// Throws config_error where ranks would begin from different pictures and no rank has all weights to share.
void check_begins_alike(const Setup& setup, bool holds_part) {
  const auto& mesh = setup.world.plan.mesh;
  if (holds_part && mesh.pipe == 1 && mesh.data > 1 && *setup.options.shuffle == Shuffle::kRankLocal &&
      !setup.world.has_rank_threads)
    throw config_error(concat("--shuffle rank-local with --mode ", setup.options.mode, ": --arch ", setup.options.arch,
                              " begins from pictures, of which each rank would see others; expected --shuffle global"));
}

}  // namespace

FirstImages::FirstImages(const Setup& setup, int64_t count)
    : loader_(setup.data.train, *setup.eval_pipeline, first_images_options(setup)), left_count_(count) {
  loader_.start_epoch(0);
}

torch::Tensor FirstImages::next() {
  while (true) {
    batch_.reset();  // the loader gets its slot back
    if (left_count_ > 0) batch_ = loader_.next();
    if (!batch_) return {};
    const int64_t count = std::min(batch_->count(), left_count_);
    left_count_ -= count;
    const auto rows = view_tensors(*batch_);
    const auto images = rows.images.narrow(0, 0, count);
    const auto is_shown = rows.weights.narrow(0, 0, count) > 0;  // masked rows have weight 0
    const auto shown_count = is_shown.sum().item<int64_t>();
    if (shown_count > 0) return shown_count == count ? images : images.index({is_shown});
  }
}

void begin_from_images(Setup& setup, bool holds_part) {
  if (!begins_from_images(setup)) return;
  check_begins_alike(setup, holds_part);
  if (setup.world.is_spawner) return;
  FirstImages images(setup, setup.model->initial_image_count());
  setup.initial_weights = setup.model->initial_weights([&images] { return images.next(); });
  if (!setup.is_outline) take_weights(*setup.model, setup.initial_weights);
}

}  // namespace penstock
