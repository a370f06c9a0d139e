// A batch as tensors, without a copy: for the trainer, and for programs that train a LibTorch model of their own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <memory>
#include <utility>

#include "loader/batch/loader.h"

namespace penstock {

/// Tensors on the CPU whose memory is the slot of a batch. They may be written to: the slot belongs to the batch until
/// it goes back to the loader, which then writes all of it anew.
struct BatchTensors {
  at::Tensor images;   // by the layout: f32, f16 or bf16 rows x C x H x W or rows x H x W x C, or u8 rows x H x W x C
  at::Tensor labels;   // i64 rows
  at::Tensor ids;      // i64 rows; -1 for padding
  at::Tensor weights;  // f32 rows: 1, or 0 for padding and substituted rows
  // Defined only with mixup or cutmix: i64 rows, and f32 rows, the share that `labels` have in the loss.
  at::Tensor second_labels, mix_weights;
};

namespace detail {

inline at::ScalarType dtype_of(Layout layout) {
  if (layout == Layout::kU8Nhwc) return at::kByte;
  if (layout == Layout::kF16Nchw || layout == Layout::kF16Nhwc) return at::kHalf;
  return layout == Layout::kBf16Nchw || layout == Layout::kBf16Nhwc ? at::kBFloat16 : at::kFloat;
}

}  // namespace detail

/// Tensors over the slot of `batch`, valid as long as it. Each tensor calls `release` when it ends; `release` may hold
/// an object that keeps the batch alive.
template <class Release>
BatchTensors view_tensors(Batch& batch, const Release& release) {
  const int64_t rows = batch.rows();
  const Extent extent = batch.extent();
  const auto arrays = batch.arrays();
  const auto tensor = [&](auto span, at::IntArrayRef shape, at::ScalarType dtype) {
    return span.empty() ? at::Tensor() : at::from_blob(span.data(), shape, release, at::dtype(dtype));
  };
  BatchTensors tensors;
  const std::array<int64_t, 4> planar{rows, extent.channels, extent.height, extent.width};
  const std::array<int64_t, 4> interleaved{rows, extent.height, extent.width, extent.channels};
  tensors.images =
      tensor(arrays.pixels, is_planar(batch.layout()) ? planar : interleaved, detail::dtype_of(batch.layout()));
  tensors.labels = tensor(arrays.labels, {rows}, at::kLong);
  tensors.ids = tensor(arrays.ids, {rows}, at::kLong);
  tensors.weights = tensor(arrays.weights, {rows}, at::kFloat);
  tensors.second_labels = tensor(arrays.second_labels, {rows}, at::kLong);
  tensors.mix_weights = tensor(arrays.mix_weights, {rows}, at::kFloat);
  return tensors;
}

inline BatchTensors view_tensors(Batch& batch) {
  return view_tensors(batch, [](void*) {});
}

/// Tensors that keep the batch: its slot goes back to the loader when the last of them and of their views is gone. They
/// must not outlive the loader. The batch that comes prefetch + 2 batches later uses the same slot, and Loader::next()
/// waits until it is free, so clone a tensor that you keep for longer.
inline BatchTensors take_tensors(Batch batch) {
  const auto held = std::make_shared<Batch>(std::move(batch));  // shared by up to six tensors
  return view_tensors(*held, [held](void*) {});
}

}  // namespace penstock
