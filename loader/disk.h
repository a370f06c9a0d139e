// Disk: how fast the files of a data set can be read, by one reader and by several at once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/dataset.h"

namespace penstock {

struct DiskRate {
  double one = 0;   ///< Bytes per second of one reader.
  double most = 0;  ///< Bytes per second of eight readers together. At least `one`.
};

/// Reads pieces of 128 KiB, as much as the kernel reads ahead, from random places of `files`, past the page cache
/// (O_DIRECT): twice an eighth of a second with one thread, then with eight; the better of both. Nothing where the file
/// system cannot pass its cache, where no file has a whole piece, or where threads cannot be started. Meant for a run
/// that has ended: what else reads from the disk meanwhile is measured with it. Thread-safety: any thread.
std::optional<DiskRate> measure_disk(const std::vector<std::filesystem::path>& files);

/// `20.0 MB/s is what the storage gives, 6.2 MB/s of it in images of 110.2 KB`; the second part only where less than 90
/// % of it was used, the third where `image_bytes` is known (above 0). With `most` 0, not measured: `the loader waited
/// for the storage, which gave 6.2 MB/s in images of 110.2 KB`.
std::string storage_text(double most, double images_per_second, double image_bytes);

/// The files of all shards, whether they are open or not.
std::vector<std::filesystem::path> shard_files(const Dataset& dataset);

/// What `shardprep pack --encode coef` would store / what is stored now, from 16 samples of the first shard of `share`,
/// compressed as JPEGs of quality 90: an estimate, for what the source's own files were is not known here. 0 where most
/// samples are no pixels, and where it would save nothing. Reads those samples.
double coefficient_share(const Dataset& dataset, ShardShare share);

}  // namespace penstock
