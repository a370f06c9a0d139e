// Training data: what --data names, as packed data sets and the pipelines that go with them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "loader/dataset.h"
#include "train/options.h"

namespace penstock {

/// What a --data text means: a packed data set's folder, or a source and the folder it reads (empty for embedded ones).
struct DataName {
  std::string source;  ///< A spec; empty: a packed data set.
  std::filesystem::path folder;
};

/// `digits`, `digits(count=500)`, `mnist:DIR`, or a folder. A source's bare name means a folder of that name where that
/// holds a packed data set; `digits()` always means the source. Throws config_error for an unknown source, io_error for
/// a folder that is not there.
DataName parse_data_name(const std::string& text, const std::string& split = "train");

/// ${XDG_CACHE_HOME}/penstock, ~/.cache/penstock without it.
std::filesystem::path default_cache();

/// Packs a foreign source into CACHE once and returns the split's folder. The folder's name holds a hash of source,
/// absolute path, split and the source's fingerprint, so that changed data are packed again. A lock file beside it
/// makes concurrent runs and ranks wait for the one that packs; the lock goes with the process that holds it. Errors:
/// what the source or pack() throws. `say` gets a line when something was packed, and one every 5 s meanwhile.
std::filesystem::path pack_into_cache(const DataName& name, const std::string& split,
                                      const std::filesystem::path& cache,
                                      const std::function<void(const std::string&)>& say);

struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;  ///< Null: there is no test split, nothing is evaluated.
  std::string augment, eval_augment;    ///< Resolved: both end with a normalisation.
  std::string note;                     ///< What was added or is missing, for people; may be empty.
};

/// Opens (and packs, where needed) both splits. Of a packed data set the split `test` is evaluated on, where it is
/// there; of a folder that is itself a split, its sibling `test`. `share`: the shards of the training split to open.
TrainingData open_training_data(const TrainOptions& options, ShardShare share,
                                const std::function<void(const std::string&)>& say);

/// `spec_list` with `normalize` appended when it has none: the data set's own statistics.
std::string with_normalize(const std::string& spec_list);

/// What the model sees of one sample.
Extent rendered_extent(const Dataset& dataset, const Pipeline& pipeline);

}  // namespace penstock
