// Form rates: a sample of pictures is packed in every form, and the loader is measured on each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/pack/pack.h"
#include "loader/pack/storage_plan.h"
#include "loader/sources/source.h"

namespace penstock {

struct FormSample {
  std::vector<StorageForm> forms;
  uint64_t sample_count = 0;  ///< Pictures that were measured.
  double other_cores = 0;     ///< Mean number of cores that other programs had meanwhile.
  std::string augment;        ///< The transforms that were measured.
};

/// Packs pictures of `source` in even distances, in a folder that is removed at the end, and measures epochs over them
/// with 1, 2, 4 ... workers up to the number of cores. All forms and numbers take turns, so that a change of the
/// machine's speed meets all of them; the rate is the median of the turns.
///
/// `augment`: "": those that suit the pictures. `sample_count`: 0: what takes some seconds. `sixteen_bit`: as pack()
/// has it; forms that would lose bits that it keeps are left out, and those of other sizes where fields are in pixels.
/// Errors: what pack() and Loader throw. Broken pictures are left out.
FormSample measure_forms(const std::shared_ptr<const Source>& source, const std::string& name,
                         const LoaderOptions& loader, const std::string& augment, uint64_t sample_count,
                         SixteenBit sixteen_bit);

}  // namespace penstock
