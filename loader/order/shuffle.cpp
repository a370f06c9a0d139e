// Shuffle: its words, and the two numbers of shards(...).
#include "loader/order/shuffle.h"

#include <algorithm>

#include "core/choice.h"
#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {
namespace {

int checked_number(const Spec& spec, const char* key, int fallback, int most, const std::string& expected) {
  const int number = spec.get(key, fallback);
  if (number >= 1 && number <= most) return number;
  throw config_error(concat(spec.where(), ": ", key, " is ", number, "; expected 1 to ", most, expected));
}

}  // namespace

std::map<std::string, Shuffle> shuffle_names() {
  return {{"global", Shuffle::kGlobal},
          {"rank-local", Shuffle::kRankLocal},
          {"none", Shuffle::kNone},
          {"shards", Shuffle::shards()}};
}

std::string Shuffle::text() const {
  if (has_window()) return concat("shards(window=", window, ",lanes=", lanes, ")");
  return kind == Kind::kNone ? "none" : kind == Kind::kGlobal ? "global" : "rank-local";
}

Shuffle parse_shuffle(const std::string& name, const std::string& text, const char* what) {
  if (!text.starts_with("shards(")) return choice(name, text, shuffle_names(), what);
  const Spec spec = parse_spec("shuffle", text).with_keys({"window", "lanes"});
  const int window = checked_number(spec, "window", Shuffle::kDefaultWindow, Shuffle::kMostWindow, " shards");
  const int most = std::min(window, Shuffle::kMostLanes);
  const int lanes = checked_number(spec, "lanes", std::min(Shuffle::kDefaultLanes, most), most,
                                   concat(" with a window of ", window, ", because a lane has a shard or more"));
  return Shuffle::shards(window, lanes);
}

}  // namespace penstock
