// BatchPlanner: jobs, labels and weights of the rows of a batch, one after the other.
#include "train/resident/batch_planner.h"

#include <cstring>

namespace penstock {
namespace {

int64_t job_bytes(int64_t rows) { return rows * static_cast<int64_t>(KernelBatch::kJobBytes); }
int64_t label_bytes(int64_t rows) { return rows * static_cast<int64_t>(sizeof(int64_t)); }
int64_t weight_bytes(int64_t rows) { return rows * static_cast<int64_t>(sizeof(float)); }

}  // namespace

int64_t batch_plan_bytes(int64_t rows) {
  constexpr int64_t kAlignment = 16;
  return (job_bytes(rows) + label_bytes(rows) + weight_bytes(rows) + kAlignment - 1) / kAlignment * kAlignment;
}

torch::Tensor planned_labels(const torch::Tensor& bytes, int64_t rows) {
  return bytes.narrow(0, job_bytes(rows), label_bytes(rows)).view(torch::kInt64);
}

torch::Tensor planned_weights(const torch::Tensor& bytes, int64_t rows) {
  return bytes.narrow(0, job_bytes(rows) + label_bytes(rows), weight_bytes(rows)).view(torch::kFloat32);
}

BatchPlanner::BatchPlanner(const Dataset& dataset, const ResidentPictures& pictures, const Pipeline& pipeline,
                           const SampleOrder& order, const LoaderOptions& options)
    : pictures_(pictures),
      pipeline_(pipeline),
      order_(order),
      options_(options),
      scales_dct_(scales_dct(options.dct_scale, pipeline)),
      substitutes_(dataset, order, options.seed),
      epoch_order_(order.order_of(0)),
      work_(pictures.pictures(), pictures.row_extent()) {}

PlannedBatch BatchPlanner::plan(int64_t epoch, int64_t index, std::byte* to) {
  if (epoch != epoch_) epoch_order_ = order_.order_of(epoch), epoch_ = epoch;
  const Partition::Rows rows = order_.partition().rows(index);
  PlannedBatch planned;
  DeviceBatch& batch = planned.batch;
  batch.epoch = epoch, batch.index = index, batch.first_position = rows.first_position;
  batch.rows = order_.partition().rows_per_rank(), batch.count = rows.count, batch.global_count = rows.global_count;
  auto* const labels = reinterpret_cast<int64_t*>(to + job_bytes(batch.rows));
  auto* const weights = reinterpret_cast<float*>(to + job_bytes(batch.rows) + label_bytes(batch.rows));
  work_.clear();
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (row < rows.count) {
      add_row(order_.place_at(epoch_order_, rows.first_position + static_cast<uint64_t>(row)), row, planned, labels,
              weights);
    } else {
      work_.add_empty();
      labels[row] = 0, weights[row] = 0;
    }
  }
  std::memcpy(to, work_.jobs().data(), work_.jobs().size());
  planned.needs = work_.needs();
  return planned;
}

/// The candidate that the loader takes in the place of a corrupt sample; the sample itself where all are corrupt.
SampleOrder::Place BatchPlanner::substitute(const SampleOrder::Place& corrupt, int64_t epoch, uint64_t position) const {
  for (int number = 0; number < Substitutes::kMost; ++number) {
    const auto place = substitutes_.candidate(pictures_[corrupt.index].label, epoch, position, number);
    if (!pictures_[place.index].is_corrupt()) return place;
  }
  return corrupt;
}

void BatchPlanner::add_row(SampleOrder::Place place, int64_t row, PlannedBatch& planned, int64_t* labels,
                           float* weights) {
  if (pictures_[place.index].is_corrupt()) {
    ++planned.batch.corrupt_count;
    const DeviceBatch& batch = planned.batch;
    if (options_.on_corrupt == OnCorrupt::kSubstitute)
      place = substitute(place, batch.epoch, batch.first_position + static_cast<uint64_t>(row));
  }
  const auto& entry = pictures_[place.index];
  labels[row] = entry.label, weights[row] = entry.is_corrupt() ? 0.F : 1.F;
  if (entry.is_on_host()) planned.host_rows.push_back(row);
  if (entry.is_corrupt() || entry.is_on_host()) return work_.add_empty();
  const Plan plan = pipeline_.plan(pictures_.pictures().whole(entry.number), seed_of_copy(options_.seed, place.copy),
                                   static_cast<uint32_t>(planned.batch.epoch), entry.id);
  work_.add(entry.number, plan, scales_dct_);
}

}  // namespace penstock
