// pack(): turns a foreign data set into shards and a manifest, once.
//
// Lives here: packing a source into shards, unpacking them again, and verifying a packed data set.
// Not here: the formats that are read (loader/sources) and the bytes that are written (loader/shards).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loader/pack/pack_options.h"
#include "loader/shards/problems.h"
#include "loader/sources/source.h"

namespace penstock {

struct PackProgress {
  uint64_t done_count = 0, total_count = 0;  ///< Samples.
  double seconds = 0;
  uint64_t reused_count = 0;   ///< Samples in shards that an interrupted packing had finished.
  uint64_t skipped_count = 0;  ///< Broken pictures left out so far (skip_corrupt).
  /// One message per picture that was left out since the last call: its file, and what was wrong with it. The first
  /// call also has those that an interrupted packing left out.
  std::vector<std::string> skipped;
  IgnoredFiles ignored;            ///< Files in the source's folder.
  std::vector<std::string> notes;  ///< Source::notes() so far; with the last call also about all fields.
};

/// Writes OUTPUT/<split>: shards, manifest and, if pictures were left out, kSkippedFile. `on_progress` is called on the
/// calling thread about ten times per second, and at the end.
///
/// All splits of a data set have the same classes. Where OUTPUT holds another split, labels are those that its manifest
/// gives the names of the source's classes; so split test may lack classes, but none of them shifts.
///
/// Determinism: equal inputs, options and classes of other splits give equal bytes, whatever `jobs` is.
/// Crash-safety: shards and manifest are written under OUTPUT/.<split>.partial and synced, and the folder is renamed
/// last. The packing after one that was killed goes on with the shards that are missing. A packing that fails leaves no
/// files.
/// Memory: up to 16 bytes per sample and a message for each that is left out, besides what the source holds. Each job
/// also needs what its ShardWriter holds, and one picture, decoded and encoded. At the start, JPEGs need about 40 MB of
/// blocks to train a codebook with. Errors: config_error (also when OUTPUT/<split> exists, unless `force` is set and it
/// holds only shards and a manifest; and when the classes are not those of another split in OUTPUT), io_error (also for
/// a full disk), corrupt_error naming file and sample.
void pack(const PackOptions& options, const std::function<void(const PackProgress&)>& on_progress = {});

/// The same for a source that is there already, in place of options.source and options.input. `name` stands for it in
/// the manifest and in messages.
void pack(const Source& source, const std::string& name, const PackOptions& options,
          const std::function<void(const PackProgress&)>& on_progress = {});

/// Throws what pack() would throw before it writes anything: for wrong options, an output that is in the way, or a
/// source that is missing or empty.
void check_packing(const PackOptions& options);

}  // namespace penstock
