// likely_source(): guesses the source whose files a folder holds that is not packed.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// `mnist:DIR` for a folder with IDX files, `cifar10:DIR` for one with binary batches, `image-folder:DIR` for one with
/// pictures at most three folders down; "" for anything else. Looks at no more than 2000 names, and into no file.
std::string likely_source(const std::filesystem::path& folder);

}  // namespace penstock
