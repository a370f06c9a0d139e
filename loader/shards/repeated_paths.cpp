// Repeated paths: one pass over all samples.
#include "loader/shards/repeated_paths.h"

#include <algorithm>

#include "core/text.h"
#include "loader/files/read_from.h"

namespace penstock::detail {

std::unordered_set<std::string> repeated_paths(const Dataset& dataset) {
  std::unordered_set<std::string> seen, repeated;
  for (uint64_t index = 0; index < dataset.size(); ++index)
    read_from(dataset, index, [&] {
      const Sample sample = dataset.at(index);
      std::string path(sample.path);
      if (!path.empty() && !seen.insert(path).second) repeated.insert(std::move(path));
    });
  return repeated;
}

std::filesystem::path with_id(const std::filesystem::path& path, uint64_t id) {
  return path.parent_path() / concat(path.stem().string(), "-", id, path.extension().string());
}

bool has_possible_length(const std::filesystem::path& path) {
  const size_t most_of_name = 255, most_of_path = 4000;
  return path.native().size() <= most_of_path &&
         std::all_of(path.begin(), path.end(), [&](const auto& part) { return part.native().size() <= most_of_name; });
}

}  // namespace penstock::detail
