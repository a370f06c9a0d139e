// Training data: from the text of --data to packed data sets and their pipelines.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loader/shards/dataset.h"
#include "train/options/options.h"

namespace penstock {

/// What the text of --data means: the folder of a packed data set, or a source and the folder that it reads.
struct DataName {
  std::string source;            ///< The spec of a source; empty: `folder` is a packed data set.
  std::filesystem::path folder;  ///< Empty for an embedded source.
};

/// `text` is `digits`, `digits(count=500)`, `mnist:DIR`, or a folder. What is there is a folder, also with `(` or `:`
/// in its path, except that the bare name of a source means a folder of that name only if it holds a packed data set.
/// Throws config_error for an unknown source, and io_error for a folder that does not exist.
DataName parse_data_name(const std::string& text, const std::string& split = "train");

/// ${XDG_CACHE_HOME}/penstock, or ~/.cache/penstock if that variable is not set.
std::filesystem::path default_cache();

/// Packs a source into CACHE, if that has not been done before, and returns the folder of the split. The folder's name
/// contains a hash of source, absolute path, split and the source's fingerprint, with inodes, so that changed data are
/// packed again; with `repacks` also others.
/// A lock file beside it makes other runs and ranks wait for the one that packs; the lock ends with the process that
/// holds it. `log` gets a line before it packs, every 5 s meanwhile, and at the end. Errors: what the source or pack()
/// throws.
std::filesystem::path pack_into_cache(const DataName& name, const std::string& split,
                                      const std::filesystem::path& cache,
                                      const std::function<void(const std::string&)>& log, bool repacks = false);

struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  ///< What is evaluated; null if there is no such split.
  std::string augment, eval_augment;    ///< Resolved: both contain normalize.
  std::string no_test;                  ///< Why there is no test split; empty if there is one.
  std::vector<std::string> notes;       ///< For people: what was added or is missing, a line each.
};

/// Opens both splits, and packs them before if needed. Evaluations use the split options.evaluated_split of a packed
/// data set, if it exists; if --data is the folder of one split, they use the folder of that name beside it. `share`
/// says which shards of the training split to open.
TrainingData open_training_data(const TrainOptions& options, RankShards share,
                                const std::function<void(const std::string&)>& log);

/// `spec_list`, with `normalize` appended if it has none; this normalises by the statistics of the data set.
std::string with_normalize(const std::string& spec_list);

/// The extent of one sample as the model gets it.
Extent rendered_extent(const Dataset& dataset, const Pipeline& pipeline);

}  // namespace penstock
