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

/// A batch of plans as one small tensor, 424 bytes per row, and which operations are needed by any row.
struct PlanBatch {
  torch::Tensor rows;  ///< f64 N x columns (indices and labels are exact to 2^53), on the device.
  Extent output;
  bool is_nearest = false, is_bilinear = false, is_recolored = false;
  int erased_count = 0;

  torch::Tensor labels() const;   ///< i64 N
  torch::Tensor weights() const;  ///< f32 N
};

/// Copies the plans to `device` in one copy, on CUDA from pinned memory. Requires at least one row, and one output size
/// for all rows. Throws what require_device_renders() throws.
PlanBatch pack_plans(std::span<const PlannedRow> rows, int channels, const torch::Device& device);

/// Throws config_error if the plan needs something that device_render() cannot do: colour steps, antialiasing, or a
/// view that is not the whole picture.
void require_device_renders(const Plan& plan);

/// Returns f32 N x C x H x W, normalised. `pictures` are u8 M x H x W x C on the device of the plans.
///
/// Equality: it does the operations of render() one by one, in the same order and precision (f64 for the start of a
/// row, f32 after that), each with its own rounding. On the CPU, and wherever f32 arithmetic is IEEE, the result is
/// therefore that of render() to the bit. Memory while it runs: about 10 times the result with bilinear sampling, 5
/// times with nearest.
torch::Tensor device_render(const torch::Tensor& pictures, const PlanBatch& plans, const Normalization& normalization);

}  // namespace penstock
