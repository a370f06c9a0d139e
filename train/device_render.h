// device_render(): what render() does to one sample, done to a batch of plans by tensor operations on any device.
#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"

namespace penstock {

/// One row of a batch to be rendered.
struct PlannedRow {
  int64_t picture = 0;  ///< Row of the pictures tensor.
  int64_t label = 0;
  float weight = 1;
  Plan plan;
};

/// A batch of plans as one small tensor, 424 bytes a row, and what can be skipped because no row wants it.
struct PlanBatch {
  torch::Tensor rows;  ///< f64 N x columns (indices and labels are exact to 2^53), on the device.
  Extent output;
  bool is_nearest = false, is_bilinear = false, is_recolored = false;
  int erased_count = 0;

  torch::Tensor labels() const;   ///< i64 N
  torch::Tensor weights() const;  ///< f32 N
};

/// Copies the plans to `device` in one go, from pinned memory on CUDA. Requires rows of one output size, one row at
/// least. Throws what require_device_renders() throws.
PlanBatch pack_plans(std::span<const PlannedRow> rows, int channels, const torch::Device& device);

/// Throws config_error where the plan asks for what device_render() does not do: colour steps, antialiasing, a view
/// that is not the whole picture.
void require_device_renders(const Plan& plan);

/// f32 N x C x H x W, normalised, of u8 `pictures` M x H x W x C on the plans' device.
///
/// Equality: the operations of render() one by one in the same order and precision (f64 for the start of a row, f32
/// after), each rounded on its own, so that on the CPU, and wherever f32 arithmetic is IEEE, the result is render()'s
/// to the bit. Memory: about 10 times the result while it runs with bilinear sampling, 5 times with nearest.
torch::Tensor device_render(const torch::Tensor& pictures, const PlanBatch& plans, const Normalization& normalization);

}  // namespace penstock
