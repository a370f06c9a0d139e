// Resident feeder: batches out of pictures that stay on the device.
#pragma once

#include <memory>

#include "train/feed/feeder.h"
#include "train/resident/resident_pictures.h"

namespace penstock {

/// A feeder that keeps this rank's samples on the device as they are stored, raw or as JPEG coefficients, and decodes,
/// crops, resizes and normalises them there, by plan. Rows, labels and order are those of a loader with these options,
/// whose layout may be f32, f16 or bf16; on the CPU, and on a device with IEEE arithmetic, so are the bits of the
/// pixels.
///
/// Where the pictures do not fit, the first ones stay there, as many as fit. The rows of the others are made by such a
/// loader, with its workers, and copied to their places in the batch.
///
/// Memory on the device: the pictures, two windows of plans (PlanPrefetcher), and per batch, for what is decoded,
/// about 6 bytes per pixel. Errors: those of ResidentPictures, and config_error for transforms that mix rows.
std::unique_ptr<Feeder> make_resident_feeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                             const LoaderOptions& options, const torch::Device& device,
                                             Recorder& recorder, const ResidentRoom& room = {});

}  // namespace penstock
