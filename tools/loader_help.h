// Help texts of the loader's flags that train and loadbench share.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"
#include "loader/samplers/sampler.h"
#include "loader/samplers/subset.h"
#include "tools/cli.h"

namespace penstock {

inline constexpr const char* kShuffleHelp =
    "order of the samples. global: a random order of all of them; rank-local: rank r of W has the shards r, r + W, ... "
    "and takes their samples in random order; none: as they are stored; shards(window=256,lanes=8): a random order "
    "that "
    "uses at most so many shards at a time, in lanes that ranks share, for sets that do not fit into memory or lie far "
    "away";
inline constexpr const char* kTailHelp =
    "the last samples of an epoch, if they do not fill a batch. pad: fill it up with rows of weight 0, which count "
    "nowhere; drop: leave these samples out";
inline constexpr const char* kDecodeHelp =
    "how JPEGs are decoded; the pixels are the same, those of libjpeg-turbo. index: only the blocks under the crop, "
    "with stored coefficients or a seek index (pack gives neither to a picture for which the pixels would differ); "
    "region: libjpeg-turbo, down to the last row of the crop; full: libjpeg-turbo, the whole picture; auto: the first "
    "of these that a sample allows";

/// `first` names the transforms whose size the schedule changes.
inline std::string size_schedule_help(const char* first) {
  return concat(
      "sizes of the pictures by epoch, for example 0:128,6:160,12:224: epochs 0 to 5 have 128, 6 to 11 have "
      "160, and later ones 224. It is the key size of the last transform of ",
      first, " that sets the size");
}

/// --also. `end` is added to its help.
inline CLI::Option* add_also_option(CLI::App& app, std::vector<std::string>& folders, const std::string& end = "") {
  return app
      .add_option("--also", folders,
                  "a further data set of the same classes, whose samples come after those of --data; the flag may be "
                  "given several times. --sampler mix says how many of each an epoch has (default: all of them, once)" +
                      end)
      ->type_name("DIR")
      ->take_all()
      ->allow_extra_args(false);
}
inline constexpr const char* kExcludeHelp =
    "file of samples that are left out: an id per line, or a quarantine.jsonl of an earlier run";
inline std::string subset_help() { return std::string("use ") + kSubsetHelp; }
inline std::string sampler_help() {
  return "how often an epoch has which samples (default: all of them, once). Known samplers:" +
         help_lines<SamplerRegistry>();
}
inline constexpr const char* kOnCorruptHelp =
    "what a corrupt sample does. fail: it ends the run; mask: its row gets zeroed pixels and weight 0; substitute: "
    "another sample of its class has its row, or if 8 of them are corrupt as well, it is masked. More than 1 % of rows "
    "with corrupt samples, of 1,000 rows or more, end the run";

/// `values` says when each value of the flag does this.
inline std::string dct_scale_help(const char* values) {
  return std::string(
             "decode a JPEG at 1/2, 1/4 or 1/8 of its size where the crop is reduced at least as much anyway, ") +
         "which is faster and changes pixels. " + values;
}

}  // namespace penstock
