// PhotoData: the photographs of PENSTOCK_DATA (or ../shared/data), packed in several ways into a temporary folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "loader/dataset.h"
#include "loader/storage.h"

namespace penstock {

/// The folder with the photographs; empty where there is none, so that a benchmark can say so.
std::filesystem::path photo_folder();

/// The photographs, or with `is_enlarged` the same at twice the sides (bilinear, quality 90, 4:2:0), packed with
/// `storage`. Kept for the life of the process; equal arguments give the same one. Not thread-safe.
const std::shared_ptr<const Dataset>& packed_photos(const StorageOptions& storage, bool is_enlarged = false);

}  // namespace penstock
