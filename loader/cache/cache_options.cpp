// The options of the cache, from the environment.
#include "loader/cache/cache_options.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

double unit_of(std::string_view text, uint64_t disk_bytes) {
  if (text.empty()) return 1;
  if (text == "%") return static_cast<double>(disk_bytes) / 100;
  if (text == "kb" || text == "KB") return 1e3;
  if (text == "mb" || text == "MB") return 1e6;
  if (text == "gb" || text == "GB") return 1e9;
  if (text == "tb" || text == "TB") return 1e12;
  return 0;
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto set = value_of(kCacheDirVariable); !set.empty()) return set;
  std::filesystem::path base = value_of("XDG_CACHE_HOME");
  if (base.empty()) base = std::filesystem::path(value_of("HOME")) / ".cache";
  return base / "penstock-shards";
}

uint64_t parse_byte_limit(const std::string& where, const std::string& text, uint64_t disk_bytes) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view rest(stop, static_cast<size_t>(end - stop));
  const double bytes = failure == std::errc() ? number * unit_of(rest, disk_bytes) : 0;
  if (bytes >= 1 && bytes < 9e18 && (rest != "%" || number <= 100)) return static_cast<uint64_t>(std::llround(bytes));
  throw config_error(concat(where, ": is ", in_quotes(text),
                            "; expected bytes as in 100gb, 500mb or 123456, or a part ", "of the disk as in 80%"));
}

}  // namespace penstock
