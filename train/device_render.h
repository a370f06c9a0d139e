// device_render(): renders a batch of plans by tensor operations on any device, with the result of render().
#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"

namespace penstock {

/// One row of a batch to be rendered.
struct PlannedRow {
  int64_t picture = 0;  ///< Its row in the tensor of pictures.
  int64_t label = 0;
  float weight = 1;
  Plan plan;
};

/// Which operations are needed by any row of some plans. A row has the same pixels if there are more of them than it
/// needs itself.
struct PlanNeeds {
  bool is_nearest = false, is_bilinear = false, is_recolored = false, is_substituted = false;
  int erased_count = 0;

  friend bool operator==(const PlanNeeds&, const PlanNeeds&) = default;
};

/// A batch of plans as one small tensor, 424 bytes per row.
struct PlanBatch {
  torch::Tensor rows;  ///< f64 N x columns (indices and labels are exact to 2^53), on the device.
  Extent output;
  PlanNeeds needs = {};

  torch::Tensor labels() const;   ///< i64 N
  torch::Tensor weights() const;  ///< f32 N
};

/// Room for the plans of `row_count` rows in the memory of the host; for CUDA it is pinned. The rows are not
/// initialised.
PlanBatch make_room_for_plans(int64_t row_count, int channels, const torch::Device& device);
/// Writes the plans of `rows` to the rows of `room` from `first` on, and adds their needs and output size to it.
/// Requires one output size for all rows. Throws what require_device_renders() throws.
void pack_plans_into(PlanBatch& room, int64_t first, std::span<const PlannedRow> rows);
/// Copies the plans to `device` in one copy, on CUDA from pinned memory. Requires at least one row, and one output size
/// for all rows. Throws what require_device_renders() throws.
PlanBatch pack_plans(std::span<const PlannedRow> rows, int channels, const torch::Device& device);

/// Throws config_error if the plan needs something that device_render() cannot do: colour steps, antialiasing, or a
/// view that is not the whole picture.
void require_device_renders(const Plan& plan);

/// A normalisation in the memory of a device: f32 1 x C x 1 x 1 each. It is copied there once, because a copy from the
/// host in every step would wait for the device, and cannot be captured as a part of a graph.
struct DeviceNormalization {
  DeviceNormalization(const Normalization& normalization, int64_t channels, const torch::Device& device);
  torch::Tensor scale, bias;
};

/// Returns f32 N x C x H x W, normalised; rows of weight 0 are 0 if any row is substituted. `pictures` are u8 M x H x W
/// x C on the device of the plans.
///
/// Equality: it does the operations of render() one by one, in the same order and precision (f64 for the start of a
/// row, f32 after that), each with its own rounding. On the CPU, and wherever f32 arithmetic is IEEE, the result is
/// therefore that of render() to the bit. Memory while it runs: about 10 times the result with bilinear sampling, 5
/// times with nearest.
torch::Tensor device_render(const torch::Tensor& pictures, const PlanBatch& plans,
                            const DeviceNormalization& normalization);

}  // namespace penstock
