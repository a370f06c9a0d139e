// Run precision: --precision and --channels-last, and whether a device has them.
#pragma once

#include <torch/types.h>

#include <string>

#include "train/models/precision.h"
#include "train/options.h"

namespace penstock {

/// What --precision says: f32, tf32, bf16, f16 or f16(scale=1024). Throws config_error.
Precision parse_precision(const std::string& text);

/// What the model of a run computes in.
Precision precision_of(const TrainOptions& options);

/// Throws config_error for a pair of options that exclude each other; device_error where the device does not compute
/// so: tf32 and f16 need CUDA, and tf32 and bf16 there a GPU of compute capability 8.0.
void check_precision(const TrainOptions& options, torch::DeviceType device);

/// With tf32, products of f32 matrices are computed from factors of 11 bits, also those of linear layers. Otherwise
/// LibTorch's defaults stay, which are so for convolutions on CUDA.
void set_matrix_precision(const TrainOptions& options);

}  // namespace penstock
