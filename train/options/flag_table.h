// Flag table: each flag of `train` once, with what its value is used for besides being an option.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "train/options/options.h"

namespace penstock {

using FlagValue = std::variant<std::string, bool, int64_t, uint64_t, double, std::vector<std::string>>;

/// What the value of a flag is used for. options.json has every flag, also those without any of these uses.
struct FlagUses {
  bool is_resumed = false;    ///< --resume takes it over from the earlier run, because it says what is trained.
  bool is_agreed = false;     ///< It must be equal at all ranks, because they train with it or act on it together.
  bool affects_speed = true;  ///< Speeds can be compared only between runs with equal values.
};

/// The numbers that a flag takes: `least` and more, but less than `below`. `automatic` stands for no number.
struct FlagRange {
  double least = 0;
  double below = std::numeric_limits<double>::infinity();
  double automatic = std::numeric_limits<double>::quiet_NaN();  ///< NaN equals nothing: there is none.
};

struct Flag {
  std::string name;  ///< The long name, without its dashes.
  FlagUses uses;
  FlagValue (*value)(const TrainOptions&);
  std::optional<FlagRange> range = {};  ///< For an int64_t or a double; check() enforces it.
};

/// All flags of `train` except --help and --version. A test fails if one is missing.
const std::vector<Flag>& flag_table();

/// The value as a user would type it. Numbers have as many digits as are needed to tell different ones apart.
std::string text_of(const FlagValue& value);

}  // namespace penstock
