// A feeder that keeps photographs as coefficients on the device, and decodes, crops and resizes them there, by plan.
#pragma once

#include <memory>

#include "train/feeder.h"

namespace penstock {

/// For data sets that are packed with `--encode coef`. Rows, labels and order are those of a loader with these options;
/// on the CPU, and on a device with IEEE arithmetic, so are the bits of the pixels.
///
/// Memory on the device: the coefficients of this rank's samples (about 1.1 times the bytes of the JPEGs: 1.10
/// for 199 photographs of ImageNet), and per batch the samples and pixels under its plans, about 6 bytes per pixel.
/// Errors: the constructor throws config_error for transforms and encodings that the device cannot render, device_error
/// where the coefficients do not fit (with both numbers), and what reading the samples throws.
std::unique_ptr<Feeder> make_resident_photographs(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                                  const LoaderOptions& options, const torch::Device& device,
                                                  Recorder& recorder);

}  // namespace penstock
