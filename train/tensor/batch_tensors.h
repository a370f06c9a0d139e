// A batch as tensors, without a copy: for the trainer, and for programs that train a LibTorch model of their own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loader/batch/loader.h"

namespace penstock {

/// Tensors on the CPU whose memory is the slot of a batch. They may be written to: the slot belongs to the batch until
/// it goes back to the loader, which then writes all of it anew.
struct BatchTensors {
  at::Tensor images;   // by the layout: f32, f16 or bf16 rows x C x H x W or rows x H x W x C, or u8 rows x H x W x C
  at::Tensor labels;   // i64 rows
  at::Tensor ids;      // i64 rows; -1 for padding
  at::Tensor weights;  // f32 rows: 1, or 0 for padding and masked rows
  // Defined only with mixup or cutmix: i64 rows, and f32 rows, the share that `labels` have in the loss.
  at::Tensor second_labels, mix_weights;
  std::map<std::string, at::Tensor> columns;  // those of makers (LoaderOptions::columns), by name: rows x shape
};

namespace detail {

/// u64 is i64: LibTorch computes little with u64.
inline at::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
      return at::kByte;
    case Dtype::kF16:
      return at::kHalf;
    case Dtype::kBf16:
      return at::kBFloat16;
    case Dtype::kF32:
      return at::kFloat;
    case Dtype::kBool:
      return at::kBool;
    case Dtype::kI8:
      return at::kChar;
    case Dtype::kI16:
      return at::kShort;
    case Dtype::kU16:
      return at::kUInt16;
    case Dtype::kI32:
      return at::kInt;
    case Dtype::kU32:
      return at::kUInt32;
    case Dtype::kF64:
      return at::kDouble;
    case Dtype::kI64:
    case Dtype::kU64:
      break;
  }
  return at::kLong;
}

}  // namespace detail

/// Tensors over the slot of `batch`, valid as long as it. Each tensor calls `release` when it ends; `release` may hold
/// an object that keeps the batch alive.
template <class Release>
BatchTensors view_tensors(Batch& batch, const Release& release) {
  static const std::map<std::string, at::Tensor BatchTensors::*> known{{"images", &BatchTensors::images},
                                                                       {"labels", &BatchTensors::labels},
                                                                       {"ids", &BatchTensors::ids},
                                                                       {"weights", &BatchTensors::weights},
                                                                       {"second_labels", &BatchTensors::second_labels},
                                                                       {"mix_weights", &BatchTensors::mix_weights}};
  BatchTensors tensors;
  for (size_t number = 0; number < batch.columns().size(); ++number) {
    const Column& column = batch.columns()[number];
    std::vector<int64_t> sizes{batch.rows()};
    sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
    const auto member = known.find(column.name);
    (member == known.end() ? tensors.columns[column.name] : tensors.*member->second) =
        at::from_blob(batch.column(number).data(), sizes, release, at::dtype(detail::scalar_type_of(column.dtype)));
  }
  return tensors;
}

inline BatchTensors view_tensors(Batch& batch) {
  return view_tensors(batch, [](void*) {});
}

/// Tensors that keep the batch: its slot goes back to the loader when the last of them and of their views is gone. They
/// must not outlive the loader. The batch that comes prefetch + 2 batches later uses the same slot, and Loader::next()
/// waits until it is free, so clone a tensor that you keep for longer.
inline BatchTensors take_tensors(Batch batch) {
  const auto held = std::make_shared<Batch>(std::move(batch));  // shared by all tensors
  return view_tensors(*held, [held](void*) {});
}

}  // namespace penstock
