// Shuffle: in which order the samples of an epoch come, as users name it.
#pragma once

#include <map>
#include <string>

namespace penstock {

/// The kind of an order, and with kShards its two numbers. Thread-safety: a value.
struct Shuffle {
  enum class Kind {
    kNone,       ///< As the samples are stored.
    kGlobal,     ///< A random order of all of them.
    kRankLocal,  ///< Shards belong to ranks, which shuffle their samples.
    kShards,     ///< A random order in which few shards are in use at a time (ShardOrder).
  };
  static constexpr int kDefaultWindow = 256, kDefaultLanes = 8;
  static constexpr int kMostWindow = 1 << 20, kMostLanes = 4096;

  Kind kind = Kind::kGlobal;
  int window = 0;  ///< Shards in use at a time, at most; 0 unless kShards.
  int lanes = 0;   ///< Parts of a batch that have shards of their own; 0 unless kShards.

  static const Shuffle kNone, kGlobal, kRankLocal;
  static Shuffle shards(int window = kDefaultWindow, int lanes = kDefaultLanes) {
    return {Kind::kShards, window, lanes};
  }
  bool has_window() const { return kind == Kind::kShards; }
  /// The words that parse_shuffle() takes, with both numbers: `shards(window=256,lanes=8)`.
  std::string text() const;
  bool operator==(const Shuffle&) const = default;
};

inline constexpr Shuffle Shuffle::kNone{Kind::kNone, 0, 0};
inline constexpr Shuffle Shuffle::kGlobal{Kind::kGlobal, 0, 0};
inline constexpr Shuffle Shuffle::kRankLocal{Kind::kRankLocal, 0, 0};

std::map<std::string, Shuffle> shuffle_names();

/// What `text`, the value of the flag or argument `name`, stands for: one of shuffle_names(), or shards(...) with its
/// keys. Without `lanes` there are 8, or with a smaller window as many as it has shards. Throws config_error,
/// as choice() does.
Shuffle parse_shuffle(const std::string& name, const std::string& text, const char* what = "value");

}  // namespace penstock
