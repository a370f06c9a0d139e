// First images: pictures of training for models whose weights begin from them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "loader/batch/loader.h"
#include "train/run/setup.h"

namespace penstock {

/// At most `count` pictures of this rank's data, as an evaluation sees them: the first ones of the order into which
/// --seed shuffles the first epoch. In the order of their indices the first thousands may be of few classes. Corrupt
/// samples are left out, unless they end the run (--on-corrupt fail).
///
/// Memory: three slots of a batch of kBatchRows pictures.
class FirstImages {
 public:
  static constexpr int64_t kBatchRows = 256;

  /// Requires open data and both pipelines. Throws what the loader throws, as next() does.
  FirstImages(const Setup& setup, int64_t count);
  /// The next batch: f32, N x C x H x W with N of at most kBatchRows, valid until the next call. Undefined after the
  /// last one.
  torch::Tensor next();

 private:
  Loader loader_;
  std::optional<Batch> batch_;
  int64_t left_count_;
};

/// Gives the model of `setup` the weights that follow from pictures of training, if it has such and no file has them.
/// Reads the pictures once; the models of other ranks and replicas take the weights as well. A process that starts
/// ranks has no rank's work to do: it checks alone, so that a refusal is one line and not one per rank.
/// Throws config_error where ranks would begin from different pictures and no rank has all weights to share.
void begin_from_images(Setup& setup, bool holds_part);

}  // namespace penstock
