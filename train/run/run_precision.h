// Run precision: --precision and --channels-last, and whether a device has them.
#pragma once

#include <torch/types.h>

#include <string>

#include "augment/render.h"
#include "train/nn/layers.h"
#include "train/options/options.h"

namespace penstock {

class Model;

/// What the model of a run computes in.
Precision precision_of(const ModelOptions& options);

/// How the rows of resident pictures are written: in half precision if the model would round them first anyway. The
/// bits of a step are the same then, and the rows take half the memory.
Layout layout_of_rows(const Precision& precision, const Model& model);

/// Throws config_error for a pair of options that exclude each other; device_error where the device does not compute
/// so: tf32 and f16 need CUDA, and tf32 and bf16 there a GPU of compute capability 8.0.
void check_precision(const TrainOptions& options, torch::DeviceType device);

/// Throws config_error for --channels-last or half precision of a model without a layer that knows it.
void check_layers(const ModelOptions& options, const Model& model);

/// One line that names the modules whose weights half precision leaves in f32, as it does LibTorch's own convolutions
/// in a model of a plug-in; "" if there are none. Parameters of one dimension are f32 anyway.
std::string left_in_f32(const ModelOptions& options, const Model& model);

/// With tf32, products of f32 matrices are computed from factors of 11 bits, also those of linear layers. Otherwise
/// LibTorch's defaults stay, which are so for convolutions on CUDA.
void set_matrix_precision(const ModelOptions& options);

}  // namespace penstock
