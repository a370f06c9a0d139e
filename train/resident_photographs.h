// A feeder that keeps photographs as coefficients on the device, and decodes, crops and resizes them there, by plan.
#pragma once

#include <memory>

#include "train/feeder.h"

namespace penstock {

/// For data sets that are packed with `--encode coef`. Rows, labels and order are those of a loader with these options,
/// whose layout may be f32, f16 or bf16; on the CPU, and on a device with IEEE arithmetic, so are the bits of the
/// pixels.
///
/// Where the coefficients do not fit, those of the first samples stay on the device, as many as fit. The rows of the
/// others are made by such a loader, with its workers, and copied to their places in the batch.
///
/// Memory on the device: the coefficients of this rank's samples (about 1.1 times the bytes of the JPEGs: 1.10
/// for 199 photographs of ImageNet), and per batch the samples and pixels under its plans, about 6 bytes per pixel.
/// Errors: the constructor throws config_error for transforms and encodings that the device cannot render, device_error
/// where the coefficients of fewer samples than a batch has fit (with both numbers), and what reading the samples
/// throws.
std::unique_ptr<Feeder> make_resident_photographs(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                                  const LoaderOptions& options, const torch::Device& device,
                                                  Recorder& recorder, const ResidentRoom& room = {});

}  // namespace penstock
