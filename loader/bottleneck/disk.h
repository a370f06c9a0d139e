// Disk: how fast the files of a data set can be read, by one reader and by several at once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/shards/dataset.h"

namespace penstock {

struct DiskRate {
  double one = 0;   ///< Bytes per second of one reader.
  double most = 0;  ///< Bytes per second of eight readers together. At least `one`.
};

/// Measures how fast `files` can be read. Reads pieces of 128 KiB, which is as much as the kernel reads ahead, from
/// random places, past the page cache (O_DIRECT): for an eighth of a second with one thread, then for as long with
/// eight. Does this twice and takes the better results. Returns nothing where the file system cannot bypass its cache,
/// where no file has a whole piece, or where threads cannot be started. Meant for a run that has ended, because other
/// reads from the disk at the same time change the result. Thread-safety: any thread.
std::optional<DiskRate> measure_disk(const std::vector<std::filesystem::path>& files);

/// The best rates of several turns, because a reader may have had no core in one of them; nothing where a rate of
/// `most` is 0, which means that a read has failed.
std::optional<DiskRate> best_of(const std::vector<DiskRate>& turns);

/// `20.0 MB/s is what the storage gives, 6.2 MB/s of it in images of 110.2 KB`. The second part is there only when less
/// than 90 % of it was used, the third when `image_bytes` is known (above 0). With `most` 0, which means not measured,
/// it is `the loader waited for the storage, which gave 6.2 MB/s in images of 110.2 KB`.
std::string storage_text(double most, double images_per_second, double image_bytes);

/// The files of the shards, whether they are open or not: of more than 256, as many at equal distances.
std::vector<std::filesystem::path> shard_files(const Dataset& dataset);

/// The bytes that `shardprep pack --encode coef` would store, divided by the bytes that are stored now. This is an
/// estimate from 16 samples of the first shard of `share`, compressed as JPEGs of quality 90, because the source's own
/// files are not known here. 0 where most samples are not raw pixels, where nothing would be saved, and where one of
/// the samples cannot be read or compressed. Reads those samples.
double coefficient_share(const Dataset& dataset, RankShards share);

}  // namespace penstock
