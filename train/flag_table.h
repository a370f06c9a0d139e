// Flag table: every flag of `train` once, with what it is used for beside being an option.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "train/options.h"

namespace penstock {

using FlagValue = std::variant<std::string, bool, int64_t, uint64_t, double, std::vector<std::string>>;

/// What a flag's value is used for. Every flag stands in options.json, also one without any of these uses.
struct FlagUses {
  bool is_resumed = false;    ///< --resume takes it over from the earlier run: it says what is trained.
  bool is_agreed = false;     ///< It must be equal at all ranks: they train with it or act on it together.
  bool affects_speed = true;  ///< Only runs with equal values have speeds that can be compared.
};

struct Flag {
  std::string name;  ///< Without its dashes.
  FlagUses uses;
  FlagValue (*value)(const TrainOptions&);
};

/// All flags of `train` but --help and --version, each by its long name. A flag that is missing here fails a test.
const std::vector<Flag>& flag_table();

/// The value as it would be typed; numbers with as many digits as they need to be told apart.
std::string text_of(const FlagValue& value);

}  // namespace penstock
