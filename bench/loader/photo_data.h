// PhotoData: the photographs of PENSTOCK_DATA (or ../shared/data), packed in several ways into a temporary folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "loader/shards/dataset.h"
#include "loader/shards/storage.h"

namespace penstock {

/// The folder with the photographs. It is empty where there is none, so that a benchmark can report this.
std::filesystem::path photo_folder();

/// The photographs, packed with `storage`. With `is_enlarged` they have twice the height and width (bilinear, quality
/// 90, 4:2:0). The data set is kept until the process ends, and equal arguments give the same one. Not thread-safe.
const std::shared_ptr<const Dataset>& packed_photos(const StorageOptions& storage, bool is_enlarged = false);

}  // namespace penstock
