// The options of the cache, from the environment.
#include "loader/cache/cache_options.h"

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock {
namespace {

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

double unit_of(std::string_view text, uint64_t disk_bytes) {
  if (text.empty()) return 1;
  return text == "%" ? static_cast<double>(disk_bytes) / 100 : bytes_of_unit(text);
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto set = value_of(kCacheDirVariable); !set.empty()) return set;
  std::filesystem::path base = value_of("XDG_CACHE_HOME");
  if (base.empty()) base = std::filesystem::path(value_of("HOME")) / ".cache";
  return base / "penstock-shards";
}

uint64_t parse_byte_limit(const std::string& where, const std::string& text, uint64_t disk_bytes) {
  std::string_view rest = text;
  const double number = take_number<double>(rest, std::chars_format::fixed).value_or(0);
  const double bytes = number * unit_of(rest, disk_bytes);
  if (bytes >= 1 && bytes < 9e18 && (rest != "%" || number <= 100)) return static_cast<uint64_t>(std::llround(bytes));
  throw config_error(concat(where, ": is ", in_quotes(text),
                            "; expected bytes as in 100gb, 500mb or 123456, or a part ", "of the disk as in 80%"));
}

}  // namespace penstock
