// Form rates: small data sets in a temporary folder, and turns of a loader over each.
#include "tools/shardprep/form_rates.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/clock.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/median.h"
#include "core/temporary.h"
#include "core/text.h"
#include "tools/shardprep/excerpt.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFewest = 256, kMost = 60000;
// More than fits the caches of a processor and the tables of its pages: of the source's files, or of their pixels. Raw
// pictures of 32 x 32 were 1.25 times as fast in 60 MB of pixels as in 150 MB.
constexpr double kFileBytes = 48e6, kPixelBytes = 150e6;
constexpr int kTurns = 5;
constexpr double kTurnMs = 200;          // of every worker, on a core
constexpr double kLongestTurnMs = 2000;  // of the clock, on a busy machine
constexpr double kLargeShort = 1.2;      // a short side this much longer than needed is worth reducing

/// A form, and the small data set that has it.
struct Packed {
  StorageForm form;
  std::shared_ptr<const Dataset> dataset;
};

uint64_t count_for(const Source& source, uint64_t asked) {
  if (asked > 0) return std::min(asked, source.size());
  constexpr uint64_t kLookedAt = 16;
  const uint64_t looked = std::min(source.size(), kLookedAt);
  double file_bytes = 1, pixel_bytes = 1;
  for (uint64_t i = 0; i < looked; ++i) {
    const SourceSample sample = source.read(i * source.size() / looked);
    const auto [height, width, channels] = sample.extent;
    file_bytes += static_cast<double>(sample.bytes.size());
    pixel_bytes += static_cast<double>(height) * width * channels;
  }
  const double wanted = static_cast<double>(looked) * std::max(kFileBytes / file_bytes, kPixelBytes / pixel_bytes);
  return std::min(std::clamp(static_cast<uint64_t>(wanted), kFewest, kMost), source.size());
}

Packed packed(const Source& excerpt, const std::string& name, const fs::path& output, const std::string& flags,
              const StorageOptions& storage, bool has_same_pixels) {
  PackOptions options;
  options.output = output;
  options.shard_count = 1;
  options.skip_corrupt = true;
  options.storage = storage;
  std::string first_skipped;
  try {
    pack(excerpt, name, options, [&first_skipped](const PackProgress& progress) {
      if (first_skipped.empty() && !progress.skipped.empty()) first_skipped = progress.skipped.front();
    });
  } catch (const Error& error) {
    if (first_skipped.empty()) throw;
    throw Error(error.kind(), concat(error.what(), "; the first: ", first_skipped));
  }
  Packed made{{flags, has_same_pixels, 0, {}}, Dataset::open(output)};
  const auto& manifest = made.dataset->manifest();
  for (const auto& shard : manifest.shards) made.form.image_bytes += static_cast<double>(shard.byte_count);
  made.form.image_bytes /= static_cast<double>(manifest.sample_count);
  return made;
}

double mean_short_side(const Dataset& dataset) {
  double sum = 0;
  for (uint64_t i = 0; i < dataset.size(); ++i) {
    const Extent extent = dataset.at(i).extent;
    sum += std::min(extent.height, extent.width);
  }
  return sum / static_cast<double>(dataset.size());
}

std::string augment_for(const Dataset& dataset) {
  return dataset.manifest().extent ? "normalize" : "random-resized-crop(size=224),flip,normalize";
}

/// `can_resize`: whether pack() takes a resize, which it refuses where fields are in pixels.
std::vector<Packed> pack_forms(const Source& excerpt, const std::string& name, const fs::path& folder,
                               const LoaderOptions& loader, SixteenBit sixteen_bit, bool can_resize,
                               std::string& augment) {
  std::vector<Packed> all;
  const auto add = [&](const std::string& flags, StorageOptions storage, bool has_same_pixels) {
    storage.sixteen_bit = sixteen_bit;
    all.push_back(packed(excerpt, name, folder / concat(all.size()), flags, storage, has_same_pixels));
  };
  if (excerpt.raw_extent()) {
    add("--encode auto", {}, true);  // pixels are stored as they are
    if (augment.empty()) augment = augment_for(*all[0].dataset);
    return all;
  }
  add("--encode keep", {.encode = Encode::kKeep}, true);
  const Dataset& files = *all[0].dataset;
  if (augment.empty()) augment = augment_for(files);
  add("--encode coef", {.encode = Encode::kCoefficients}, true);
  if (sixteen_bit == SixteenBit::kKeep) return all;  // pixels and JPEGs have 8 bits
  add("--encode raw", {.encode = Encode::kRaw}, true);
  const Extent output = Loader(all[0].dataset, Pipeline(augment, files.manifest().statistics), loader).extent();
  // At this size, a crop of half the picture's area or more still has a pixel for every output pixel.
  const int enough = static_cast<int>(std::ceil(std::min(output.height, output.width) * 8 / 7.0));
  if (can_resize && mean_short_side(files) > kLargeShort * enough) {
    add(concat("--encode jpeg --resize ", enough), {.encode = Encode::kJpeg, .resize_short = enough}, false);
    add(concat("--encode raw --resize ", enough), {.encode = Encode::kRaw, .resize_short = enough}, false);
  }
  return all;
}

/// Every sample once: brings the data into memory and checks it.
void warm_up(const Packed& packed, const std::string& augment, LoaderOptions options, int workers) {
  options.workers = workers;
  options.epoch_count = 1;
  Loader loader(packed.dataset, Pipeline(augment, packed.dataset->manifest().statistics), options);
  loader.start_epoch(0);
  while (loader.next()) {
  }
}

/// What a loader has done and cost, since it was made. No other loader does anything meanwhile.
struct Work {
  explicit Work(const LoaderStatistics& statistics) : rows(static_cast<double>(statistics.read.count)) {
    made_ms = ms_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID)) - taken_ms + statistics.storage().total_ms;
  }
  double rows = 0;
  double taken_ms = ms_of(cpu_ns(CLOCK_THREAD_CPUTIME_ID));  // the calling thread's
  /// The time for which all other threads had a core or waited for the storage. What workers say of themselves leaves
  /// out how they fall asleep and wake up.
  double made_ms = 0;
};

/// Images per second of a loader that goes on from epoch to epoch, so that epochs over few samples have no end to wait
/// for. Each turn has a loader of its own: one that waits would make batches while others have their turn.
///
/// The machine may be busy now and idle when it trains. So the rate is not that of the clock: it follows from the time
/// that a row takes a worker while it has a core, and the thread that takes the batches. Workers never wait for that
/// thread, and the cores are shared by both.
double turn_rate(const Packed& packed, const std::string& augment, LoaderOptions options, int workers) {
  options.workers = workers;
  Loader loader(packed.dataset, Pipeline(augment, packed.dataset->manifest().statistics), options);
  int64_t epoch = 0;
  loader.start_epoch(epoch);
  const auto take = [&] {
    while (!loader.next()) loader.start_epoch(++epoch);
  };
  // Until the slots have been used once, their memory is new.
  for (int batch = 0; batch < options.prefetch + 2; ++batch) take();
  const Work before(loader.statistics());
  Work after = before;
  for (const int64_t begin_ns = now_ns(); ms_since(begin_ns) < kLongestTurnMs;) {
    const int64_t part_ns = now_ns();
    do take();
    while (ms_since(part_ns) < kTurnMs / 10);
    after = Work(loader.statistics());
    if (after.made_ms - before.made_ms >= kTurnMs * workers) break;
  }
  const double rows = after.rows - before.rows;
  const double make_ms = (after.made_ms - before.made_ms) / rows, take_ms = (after.taken_ms - before.taken_ms) / rows;
  return 1e3 * std::min(workers / make_ms, usable_cores() / (make_ms + take_ms));
}

}  // namespace

FormSample measure_forms(const std::shared_ptr<const Source>& source, const std::string& name,
                         const LoaderOptions& loader, const std::string& augment, uint64_t sample_count,
                         SixteenBit sixteen_bit) {
  FormSample sample;
  sample.augment = augment;
  const auto excerpt = excerpt_of(source, count_for(*source, sample_count));
  const ScratchFolder scratch("penstock-plan");
  const auto types = source->fields();
  const bool can_resize =
      std::none_of(types.begin(), types.end(), [](const auto& type) { return is_in_pixels(type.kind); });
  const auto all = pack_forms(*excerpt, name, scratch.path(), loader, sixteen_bit, can_resize, sample.augment);
  sample.sample_count = all[0].dataset->size();
  const int cores = usable_cores();
  std::vector<int> workers;
  for (int count = 1; count < cores; count *= 2) workers.push_back(count);
  workers.push_back(cores);
  for (const auto& packed : all) warm_up(packed, sample.augment, loader, cores);
  std::vector<std::vector<double>> rates(all.size() * workers.size());  // by form, then by number of workers
  const int64_t begin_ns = now_ns(), begin_cpu_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  const double begin_busy_ms = busy_cores_ms();
  for (int turn = 0; turn < kTurns; ++turn)
    for (size_t i = 0; i < rates.size(); ++i)
      rates[i].push_back(turn_rate(all[i / workers.size()], sample.augment, loader, workers[i % workers.size()]));
  const double own_ms = ms_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_ns);
  sample.other_cores = std::max(0.0, (busy_cores_ms() - begin_busy_ms - own_ms) / ms_since(begin_ns));
  for (size_t i = 0; i < all.size(); ++i) {
    sample.forms.push_back(all[i].form);
    for (size_t j = 0; j < workers.size(); ++j)
      sample.forms.back().rates.push_back({workers[j], median(rates[i * workers.size() + j])});
  }
  return sample;
}

}  // namespace penstock
