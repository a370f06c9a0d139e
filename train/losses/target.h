// LossTarget: what a loss compares the outputs of a model with, the class of a sample or one of its fields.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/spec.h"
#include "loader/shards/dataset.h"
#include "train/tensor/device_batch.h"

namespace penstock {

/// The column of a batch that has the field of a target.
inline constexpr const char* kTargetColumn = "target";

struct LossTarget {
  std::string field = {};    ///< A field of the samples; empty: their class.
  std::string columns = {};  ///< LoaderOptions::columns by which a batch has the field in the column kTargetColumn.
  int64_t outputs = 0;       ///< Numbers that a model gives per row; 0: as many as there are classes.
  std::vector<std::string> names = {};  ///< The names of the outputs, where the field has some.

  bool is_class() const { return field.empty(); }
};

namespace detail {

/// The target that the keys `target` and `classes` of a loss name. A field of numbers of a fixed shape is taken as it
/// is, and has to be 0 to 1 where `takes_labels`; one of labels, where `takes_labels`, as 1 for each of `classes`
/// labels that the sample has, and 0 for the others; `classes` is the number of the field's names, if it has some.
/// Labels of boxes say what the whole picture has, also where a crop leaves a box out. Without `data` columns and
/// outputs are left out. Throws config_error for a field that is not there or of another kind.
LossTarget field_target(const Spec& spec, const Manifest* data, bool takes_labels);

/// The field, rows x `outputs`, of any dtype. Throws bug_error for a batch without it.
torch::Tensor targets_of(const DeviceBatch& rows, int64_t outputs);

}  // namespace detail
}  // namespace penstock
