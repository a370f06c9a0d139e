// Joined manifests: what must be equal, and what is summed.
#include "loader/shards/joined_manifest.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Fields without `most`, which is a matter of the values and not of the type.
std::vector<FieldType> types_of(const Manifest& manifest) {
  std::vector<FieldType> types = manifest.fields;
  for (auto& type : types) type.most = 0;
  return types;
}

void check_fits(const JoinedPart& first, const JoinedPart& part) {
  const auto problem = class_problem(part.folder, part.manifest, first.folder, first.manifest);
  if (!problem.empty()) throw config_error(problem);
  if (part.manifest.pixels != first.manifest.pixels)
    throw config_error(concat(part.folder.string(), ": pictures have pixels of ", pixel_type_name(part.manifest.pixels),
                              "; expected ", pixel_type_name(first.manifest.pixels), ", as in ",
                              first.folder.string()));
  if (part.manifest.channels != first.manifest.channels)
    throw config_error(concat(part.folder.string(), ": pictures have ", part.manifest.channels, " channels; expected ",
                              first.manifest.channels, ", as in ", first.folder.string()));
  const auto names_of = [](const Manifest& manifest) {
    std::vector<std::string> names;
    for (const auto& field : manifest.fields)
      names.push_back(concat(type_text(field), field.swapped.value_or(std::vector<std::pair<int, int>>()).empty()
                                                   ? ""
                                                   : " with pairs that change places"));
    return names.empty() ? std::string("none") : join(names);
  };
  if (types_of(part.manifest) != types_of(first.manifest))
    throw config_error(concat(part.folder.string(), ": has the fields ", names_of(part.manifest), "; expected ",
                              names_of(first.manifest), ", as in ", first.folder.string()));
}

/// Mean and deviation over all parts.
DataStatistics pooled(const std::vector<JoinedPart>& parts, double sample_count) {
  DataStatistics all = parts.front().manifest.statistics;
  for (size_t c = 0; c < all.mean.size(); ++c) {
    double sum = 0, square_sum = 0;
    for (const auto& part : parts) {
      const auto& [channels, mean, deviation, pixels] = part.manifest.statistics;
      const auto count = static_cast<double>(part.manifest.sample_count);
      sum += count * mean[c];
      square_sum += count * (deviation[c] * deviation[c] + mean[c] * mean[c]);
    }
    if (sample_count == 0) continue;
    all.mean[c] = sum / sample_count;
    all.deviation[c] = std::sqrt(std::max(0.0, square_sum / sample_count - all.mean[c] * all.mean[c]));
  }
  return all;
}

}  // namespace

Manifest join_manifests(const std::vector<JoinedPart>& parts) {
  Manifest all = parts.front().manifest;
  all.shards.clear();
  all.sample_count = all.skipped_count = all.transcoded_count = all.warned_count = 0;
  all.class_counts.assign(all.class_names.size(), 0);
  std::vector<std::string> sources;
  for (const auto& part : parts) {
    const Manifest& manifest = part.manifest;
    check_fits(parts.front(), part);
    sources.push_back(manifest.source);
    all.sample_count += manifest.sample_count;
    all.skipped_count += manifest.skipped_count;
    all.transcoded_count += manifest.transcoded_count;
    all.warned_count += manifest.warned_count;
    for (size_t i = 0; i < all.class_counts.size(); ++i) all.class_counts[i] += manifest.class_counts[i];
    if (manifest.extent != all.extent) all.extent.reset();
    for (size_t i = 0; i < all.fields.size(); ++i)
      all.fields[i].most = std::max(all.fields[i].most, manifest.fields[i].most);
    for (auto shard : manifest.shards) {
      shard.file = ((is_local(part.folder) ? fs::absolute(part.folder) : part.folder) / shard.file).string();
      all.shards.push_back(std::move(shard));
    }
  }
  all.source = join(sources, " and ");
  all.statistics = pooled(parts, static_cast<double>(all.sample_count));
  return all;
}

}  // namespace penstock
