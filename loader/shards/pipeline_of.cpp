// pipeline_of(): looks for the split train beside each part of the data set.
#include "loader/shards/pipeline_of.h"

#include <optional>
#include <vector>

#include "loader/files/files.h"
#include "loader/shards/joined_manifest.h"

namespace penstock {
namespace {

/// The folder of the split train beside that of another split.
std::optional<std::filesystem::path> train_beside(const std::filesystem::path& split_folder) {
  const auto name = resolved_name(split_folder);
  const auto train = folder_beside(split_folder, "train");
  const bool has_train = (name == "test" || name == "all") && has_manifest(train);
  return has_train ? std::optional(train) : std::nullopt;
}

}  // namespace

NormalizeStatistics normalize_statistics(const Dataset& dataset) {
  std::vector<std::filesystem::path> folders;
  bool has_train = false;
  for (const auto& part : dataset.parts()) {
    const auto train = train_beside(part.folder);
    has_train |= train.has_value();
    folders.push_back(train ? *train : part.folder);
  }
  const Manifest& own = dataset.manifest();
  if (!has_train) return {own.split, own.statistics};
  std::vector<Manifest> manifests;
  for (const auto& folder : folders) manifests.push_back(read_manifest(folder));
  std::vector<JoinedPart> parts;
  for (size_t i = 0; i < folders.size(); ++i) parts.push_back({folders[i], manifests[i]});
  const DataStatistics values = parts.size() == 1 ? manifests[0].statistics : join_manifests(parts).statistics;
  // Other numbers of channels or kinds of pixels are no training of this split's.
  const bool fits = values.channels == own.statistics.channels && values.pixels == own.statistics.pixels;
  return fits ? NormalizeStatistics{"train", values} : NormalizeStatistics{own.split, own.statistics};
}

Pipeline pipeline_of(const std::string& augment, const Dataset& dataset) {
  Pipeline own(augment, dataset.manifest().statistics);
  return own.has_normalize() ? Pipeline(augment, normalize_statistics(dataset).values) : own;
}

}  // namespace penstock
