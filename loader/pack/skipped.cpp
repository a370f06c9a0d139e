// write_skipped(): JSON lines, sorted, so that they do not depend on the number of threads.
#include "loader/pack/skipped.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/json_text.h"
#include "core/strict_json.h"

namespace penstock::detail {

SkippedPicture skipped_picture(const Source& source, uint64_t id, const std::string& message) {
  const std::string place = source.where(id) + ": ";
  return {id, utf8_text(message.starts_with(place) ? message.substr(place.size()) : message)};
}

void write_skipped(const std::filesystem::path& file, std::vector<SkippedPicture> skipped, const Source& source,
                   uint64_t first_id) {
  std::sort(skipped.begin(), skipped.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  AtomicFile lines(file);
  for (const auto& [id, reason] : skipped)
    lines.write(
        json_text(nlohmann::ordered_json{{"id", first_id + id}, {"path", source.path(id)}, {"reason", reason}}) + "\n");
  lines.commit();
}

}  // namespace penstock::detail
