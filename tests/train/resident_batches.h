// Batches of a resident feeder beside those of the host's: everything but pixels must be equal.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "augment/transform.h"
#include "loader/loader.h"
#include "train/feeder.h"

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

/// How the feeders are run, and how far pixels may be apart.
struct ResidentRun {
  int64_t epoch = 1, first_batch = 0;
  double tolerance = 0;
  ResidentRoom room = {};
};

/// The number of pixels in an epoch that differ by more than the tolerance between the two feeders; -1 for batches that
/// are missing or of other sizes. make_resident_feeder() chooses by the data.
inline int64_t differing_pixels(const std::shared_ptr<const Dataset>& dataset, const std::string& augment,
                                const LoaderOptions& options, const ResidentRun& run = {}) {
  const Pipeline pipeline(augment, dataset->manifest().statistics);
  Recorder recorder;
  const auto host = make_host_feeder(std::make_unique<Loader>(dataset, pipeline, options), torch::kCPU, recorder);
  const auto resident = make_resident_feeder(dataset, pipeline, options, torch::kCPU, recorder, run.room);
  EXPECT_EQ(host->batches_per_epoch(), resident->batches_per_epoch());
  EXPECT_EQ(host->samples_per_epoch(), resident->samples_per_epoch());
  host->start_epoch(run.epoch, run.first_batch);
  resident->start_epoch(run.epoch, run.first_batch);
  int64_t count = 0;
  while (const auto expected = host->next()) {
    const auto batch = resident->next();
    if (!batch || batch->images.sizes() != expected->images.sizes()) return -1;
    expect_same_samples(*batch, *expected);
    count += (batch->images - expected->images).abs().le(run.tolerance).logical_not().sum().item<int64_t>();
  }
  EXPECT_FALSE(resident->next());
  return count;
}

}  // namespace penstock
