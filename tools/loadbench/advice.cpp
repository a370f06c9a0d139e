// advice(): finds the stage that takes the most time, and what would make it cheaper: another storage or another
// option.
#include "tools/loadbench/advice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/bottleneck.h"
#include "loader/bottleneck/disk.h"
#include "loader/codecs/codec.h"

namespace penstock {
namespace {

constexpr uint64_t kLookedAt = 1000;  // samples whose encoding and size are looked at, and at most so many shards
constexpr double kLargeShare = 0.4;   // a stage with less of a sample's time gets no advice of its own

constexpr double kStorageShare = 0.4;  // the same for waiting for the storage, as a share of the workers' time

/// Share of the workers' time in which they waited for the storage.
double storage_share(const LoaderStatistics& statistics) {
  const auto all = statistics.all_workers();
  return all.busy_ms > 0 ? all.storage_ms / all.busy_ms : 0;
}

/// The two lines for a loader that waits for its storage: how fast that is, and what to do. More readers help if the
/// storage answers late, but not if it is used up.
std::string storage_lines(const Dataset& dataset, const BenchOptions& options, const BenchRun& best) {
  constexpr double kGain = 1.2;
  const auto disk = measure_disk(shard_files(dataset));
  const auto& statistics = best.statistics;
  const double image_bytes =
      static_cast<double>(statistics.sample_bytes) / static_cast<double>(std::max<uint64_t>(statistics.read.count, 1));
  std::string text = concat(
      "limit: ", rate_text(best.images_per_second), " with ", count_text(static_cast<uint64_t>(best.workers), "worker"),
      best.other_cores > 0 ? others_text(best.other_cores, this_machine().cores) : "",
      "; waiting for the storage takes ", percent_text(storage_share(statistics)),
      " of a sample's time: ", storage_text(disk ? disk->most : 0, best.images_per_second, image_bytes), "\nnext: ");
  if (disk && disk->most > kGain * disk->one)
    text +=
        concat("more --workers: the storage gives ", factor_text(disk->most / disk->one), " to eight readers; then ");
  const double share = coefficient_share(dataset, needed_shards(options.loader));
  if (share > 0) return text + concat("pack with --encode coef: about ", percent_text(share), " of the bytes\n");
  return text + "fewer bytes per image (--resize), or memory for all of the data\n";
}

/// Whether the delays of the requests leave the link idle, of which as many as this are made ahead at a time. They are
/// then longer than the bytes of all the others take.
bool waits_for_delays(const LinkStats& link) {
  constexpr double kRequestsAhead = 4;
  const double bytes_ms = link.rate() > 0 ? static_cast<double>(link.fetched_bytes) * 1e3 / link.rate() : 0;
  return link.latency_ms > (kRequestsAhead - 1) * bytes_ms;
}

/// "the link gives 98.2 MB/s", or what a request waits for where that costs more.
std::string link_limit(const LinkStats& link) {
  const std::string rate = byte_text(static_cast<uint64_t>(link.rate())) + "/s";
  if (!waits_for_delays(link) || link.request_count == 0) return "the link gives " + rate;
  return concat("each request waits ", ms_text(link.latency_ms / static_cast<double>(link.request_count)),
                " for its first byte, and then ", byte_text(link.fetched_bytes / link.request_count), " come at ",
                rate);
}

/// The two lines for a loader that waits for shards from far away.
std::string link_lines(const Dataset& dataset, const BenchOptions& options, const BenchRun& best) {
  const LinkStats& link = best.statistics.link;
  std::string text =
      concat("limit: ", rate_text(best.images_per_second), " with ",
             count_text(static_cast<uint64_t>(best.workers), "worker"), "; ", link_limit(link),
             ", and waiting for it takes ", percent_text(link.stall_ms / best.statistics.all_workers().busy_ms),
             " of a sample's time", link.is_emulated ? " [emulated]" : "", "\nnext: ");
  if (waits_for_delays(link)) text += "fewer and larger shards; then ";
  if (link.eviction_count > 0) text += "a larger --cache-limit; then ";
  const double share = coefficient_share(dataset, needed_shards(options.loader));
  if (share > 0) return text + concat("pack with --encode coef: about ", percent_text(share), " of the bytes\n");
  return text + "fewer bytes per image (--resize), or epochs after the first, which the cache has\n";
}

struct StageShare {
  const char* name;
  double us;
  double share;  // of all stages
};

StageShare greatest_stage(const LoaderStatistics& statistics) {
  std::vector<StageShare> stages{{"read", statistics.read.mean_us(), 0},
                                 {"plan", statistics.plan.mean_us(), 0},
                                 {"decode", statistics.decode.mean_us(), 0},
                                 {"render", statistics.render.mean_us(), 0}};
  double total = 0;
  for (const auto& stage : stages) total += stage.us;
  for (auto& stage : stages) stage.share = total > 0 ? stage.us / total : 0;
  return *std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) { return a.us < b.us; });
}

/// The form in which most of the samples are stored.
struct Stored {
  Encoding encoding = Encoding::kRaw;
  bool has_index = false;
  double short_side = 0;  // mean, pixels
};

/// Looks at samples at equal distances in the shards that the loader opened.
Stored most_stored(const Dataset& dataset, const LoaderOptions& loader) {
  const bool has_own_shards = loader.shuffle == Shuffle::kRankLocal;
  const int first = has_own_shards ? loader.rank : 0, stride = has_own_shards ? loader.world_size : 1;
  std::map<std::pair<Encoding, bool>, uint64_t> counts;
  double sides = 0;
  uint64_t count = 0;
  const int skipped = dataset.shard_count() / stride / static_cast<int>(kLookedAt) + 1;  // shards, to open few of many
  for (int shard = first; shard < dataset.shard_count(); shard += stride * skipped) {
    const uint64_t end = dataset.shard_begin(shard + 1);
    for (uint64_t i = dataset.shard_begin(shard); i < end; i += dataset.size() / kLookedAt + 1, ++count) {
      const Sample sample = dataset.at(i);
      ++counts[{sample.encoding, !sample.seek_index.empty()}];
      sides += std::min(sample.extent.height, sample.extent.width);
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return {most->first.first, most->first.second, sides / static_cast<double>(count)};
}

std::string jpeg_advice(const Dataset& dataset, const LoaderOptions& loader, const Stored& stored) {
  if (stored.has_index && loader.decode != DecodePath::kAuto && loader.decode != DecodePath::kIndex)
    return "set --decode to auto: the data have a seek index";
  if (dataset.manifest().storage.starts_with("encode=auto"))
    return "pack with --encode coef: the same pixels faster, but files that unpack would not give back to the byte";
  return "pack with --encode auto: the same pixels from stored coefficients, without Huffman decoding";
}

std::string decode_advice(const Dataset& dataset, const BenchOptions& options, const Extent& output) {
  const auto& loader = options.loader;
  const Stored stored = most_stored(dataset, loader);
  if (is_raw(stored.encoding)) return "nothing: the pixels are stored raw";
  if (codec_traits(stored.encoding).is_lossless)
    return "pack with --encode jpeg (it changes the pixels, and takes few bytes) or raw (the same pixels, many bytes)";
  if (stored.encoding == Encoding::kJpeg) return jpeg_advice(dataset, loader, stored);
  if (stored.encoding == Encoding::kCoefficients) {
    if (loader.decode == DecodePath::kRegion || loader.decode == DecodePath::kFull)
      return "set --decode to auto: the data are stored as coefficients";
    if (loader.dct_scale == DctScale::kOff) return "set --dct-scale to auto (this changes the pixels)";
  }
  // At this size, a crop of half the picture's area or more still has a pixel for every output pixel.
  const int enough = static_cast<int>(std::ceil(std::min(output.height, output.width) * 8 / 7.0));
  if (stored.short_side > 1.2 * enough)
    return concat("pack with --resize ", enough, ", which compresses the pictures again and leaves small crops fewer ",
                  "pixels: the mean short side is ", std::lround(stored.short_side), " pixels");
  return "no option would make this faster; --encode raw would save the decoding but takes several times the bytes";
}

std::string next_step(const Dataset& dataset, const BenchOptions& options, const BenchRun& best, int core_count) {
  const bool is_most_measured = best.workers == *std::max_element(options.workers.begin(), options.workers.end());
  if (is_most_measured && best.workers < core_count)
    return concat("measure --workers ", core_count, ": the largest number measured was the fastest, and there are ",
                  core_count, " cores");
  if (best.workers == 0 && options.workers.size() > 1)
    return "--workers 0: worker threads cost more time here than they save, as with few or cheap samples";
  const StageShare stage = greatest_stage(best.statistics);
  if (stage.share < kLargeShare) return "more cores: no stage takes much more time than the others";
  const std::string name = stage.name;
  if (name == "decode") return decode_advice(dataset, options, best.extent);
  if (name == "read")
    return "more memory, or fewer bytes: most of the time goes into reading from the disk or into checksums";
  if (name == "plan") return "fewer transforms";
  if (options.loader.layout == Layout::kF32Nchw)
    return "--layout u8, and normalise on the device: batches then have a quarter of the bytes";
  return "more cores: no option would make this faster";
}

}  // namespace

std::string advice(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs) {
  const auto best = std::max_element(runs.begin(), runs.end(), [](const BenchRun& a, const BenchRun& b) {
    return a.images_per_second < b.images_per_second;
  });
  if (best->statistics.link.stall_ms >= kStorageShare * best->statistics.all_workers().busy_ms &&
      best->statistics.link.fetched_bytes > 0)
    return link_lines(dataset, options, *best);
  if (storage_share(best->statistics) >= kStorageShare) return storage_lines(dataset, options, *best);
  const int core_count = this_machine().cores;
  const StageShare stage = greatest_stage(best->statistics);
  return concat("limit: ", rate_text(best->images_per_second), " with ",
                count_text(static_cast<uint64_t>(best->workers), "worker"), " on ",
                count_text(static_cast<uint64_t>(core_count), "core"),
                best->other_cores > 0 ? others_text(best->other_cores, core_count) : "", "; ", stage.name, " takes ",
                percent_text(stage.share), " of a sample's time (", std::lround(stage.us),
                " us)\nnext: ", next_step(dataset, options, *best, core_count), '\n');
}

}  // namespace penstock
