// The source that a folder which nobody has packed yet was probably meant for.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// `mnist:DIR` for a folder with IDX files, `cifar10:DIR` for one with binary batches, `image-folder:DIR` for one with
/// pictures no more than three folders down; "" for anything else. Looks at 2000 names at most, and into no file.
std::string likely_source(const std::filesystem::path& folder);

}  // namespace penstock
