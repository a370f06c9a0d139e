// Batches of a resident feeder beside those of the host's: everything but pixels must be equal.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "augment/transform.h"
#include "loader/batch/loader.h"
#include "train/feed/feeder.h"
#include "train/resident/resident_feeder.h"
#include "train/tensor/batch_tensors.h"

namespace penstock {

inline void expect_same_samples(const DeviceBatch& found, const DeviceBatch& expected) {
  EXPECT_EQ(found.index, expected.index);
  EXPECT_EQ(found.epoch, expected.epoch);
  EXPECT_EQ(found.first_position, expected.first_position);
  EXPECT_EQ(found.rows, expected.rows);
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.global_count, expected.global_count);
  EXPECT_TRUE(torch::equal(found.labels, expected.labels));
  EXPECT_TRUE(torch::equal(found.weights, expected.weights));
}

/// How the feeders are run.
struct ResidentRun {
  int64_t epoch = 1, first_batch = 0;
  ResidentRoom room = {};
};

/// The number of pixels in an epoch and the one after it that differ between the two feeders; -1 for batches that are
/// missing or of other sizes. Rows of the host are f32, and are rounded where the layout is another one.
inline int64_t differing_pixels(const std::shared_ptr<const Dataset>& dataset, const std::string& augment,
                                const LoaderOptions& options, const ResidentRun& run = {}) {
  const Pipeline pipeline(augment, dataset->manifest().statistics);
  Recorder recorder;
  auto host_options = options;
  host_options.layout = Layout::kF32Nchw;
  const auto host = make_host_feeder(std::make_unique<Loader>(dataset, pipeline, host_options), torch::kCPU, recorder);
  const auto resident = make_resident_feeder(dataset, pipeline, options, torch::kCPU, recorder, run.room);
  EXPECT_EQ(host->batches_per_epoch(), resident->batches_per_epoch());
  EXPECT_EQ(host->samples_per_epoch(), resident->samples_per_epoch());
  int64_t count = 0;
  for (const auto& [epoch, first_batch] : {std::pair{run.epoch, run.first_batch}, {run.epoch + 1, int64_t{0}}}) {
    host->start_epoch(epoch, first_batch);
    resident->start_epoch(epoch, first_batch);
    while (const auto expected = host->next()) {
      const auto batch = resident->next();
      if (!batch || batch->images.sizes() != expected->images.sizes()) return -1;
      expect_same_samples(*batch, *expected);
      EXPECT_EQ(batch->images.scalar_type(), detail::scalar_type_of(dtype_of(options.layout)));
      const auto images = expected->images.to(batch->images.scalar_type());
      count += batch->images.ne(images).sum().item<int64_t>();
    }
    EXPECT_FALSE(resident->next());
  }
  return count;
}

}  // namespace penstock
