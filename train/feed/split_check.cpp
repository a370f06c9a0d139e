// Split check: manifests side by side.
#include "train/feed/split_check.h"

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/losses/loss.h"

namespace penstock {
namespace {

/// How many numbers the loss wants of each sample of this split.
int64_t outputs_in(const Dataset& test, const std::string& loss) {
  try {
    return make_loss(loss, {.data = &test.manifest()})->target().outputs;
  } catch (const Error& error) {
    throw Error(error.kind(), concat(test.folder().string(), ": ", error.what()));
  }
}

}  // namespace

void check_splits_fit(const TrainingData& data, const std::string& loss, const LossTarget& target) {
  const Dataset& train = *data.train;
  const Dataset& test = *data.test;
  const auto problem = class_problem(test.folder(), test.manifest(), train.folder(), train.manifest());
  if (!problem.empty()) throw config_error(problem);
  if (test.size() == 0) return;
  const auto as_in_train = concat(", as in ", train.folder().string());
  const int channels = test.manifest().channels, expected = train.manifest().channels;
  if (channels != expected)
    throw config_error(concat(test.folder().string(), ": pictures have ",
                              count_text(static_cast<uint64_t>(channels), "channel"), "; expected ", expected,
                              as_in_train, channels == 1 ? ": save one of them as RGB, and all are read so" : ""));
  if (target.is_class()) return;
  const int64_t outputs = outputs_in(test, loss);
  if (outputs != target.outputs)
    throw config_error(concat(test.folder().string(), ": field ", in_quotes(target.field), " has ", outputs,
                              " numbers per sample; expected ", target.outputs, as_in_train));
}

}  // namespace penstock
