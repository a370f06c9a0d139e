// pack(): deals samples to shards, checks and writes each of them, and publishes all shards at once.
#include "loader/pack/pack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/parallel.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/checksum.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/order/order.h"
#include "loader/pack/class_table.h"
#include "loader/pack/encoder.h"
#include "loader/pack/packed_fields.h"
#include "loader/pack/partial.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxShards = 99999;  // file names have five digits for them

void check_storage(const StorageOptions& storage) {
  constexpr int kMaxSide = 65535;
  if (storage.resize_short < 0 || storage.resize_short > kMaxSide)
    throw config_error(concat("pack: resize is ", storage.resize_short, "; expected 1 to ", kMaxSide, " pixels"));
  if (storage.quality < 1 || storage.quality > 100)
    throw config_error(concat("pack: quality is ", storage.quality, "; expected 1 to 100"));
  if (!(storage.raw_share >= 0 && storage.raw_share <= 1))
    throw config_error(concat("pack: raw-share is ", storage.raw_share, "; expected 0 to 1"));
  if (storage.max_pixels < 1 || storage.max_pixels > kMaxPixels)
    throw config_error(concat("pack: max-pixels is ", storage.max_pixels, "; expected 1 to ", kMaxPixels));
  if (storage.encode == Encode::kKeep && storage.raw_share > 0) {
    throw config_error(concat("pack: raw-share is ", storage.raw_share,
                              " with encode keep, which leaves files as they are; expected encode auto, coef or jpeg"));
  }
  if (storage.encode == Encode::kKeep && storage.resize_short > 0) {
    throw config_error(concat("pack: resize is ", storage.resize_short,
                              " with encode keep, which leaves files as they are; expected encode auto, jpeg or raw"));
  }
}

/// Raw pixels are stored as they are. Throws config_error when the options ask for something else.
void check_raw_source(const StorageOptions& storage, const Source& source, const std::string& name) {
  const bool is_as_it_is = storage.encode != Encode::kCoefficients && storage.encode != Encode::kJpeg &&
                           storage.resize_short == 0 && storage.raw_share == 0;
  if (!source.raw_extent() || is_as_it_is) return;
  throw config_error(concat("pack: source ", name, " gives raw pixels, which are stored as they are; expected encode ",
                            "auto, keep or raw, and neither resize nor raw-share"));
}

detail::ClassTable table_of(const Source& source, const PackOptions& options) {
  return detail::class_table(source.class_names(), options.output, options.split, options.packed_next);
}

/// `input` is the folder that the source reads, if it reads one.
void check_source(const Source& source, const std::string& name, const std::filesystem::path& input,
                  const PackOptions& options) {
  if (source.size() == 0) {
    throw io_error(concat("source ", name, ": no samples for split ", options.split,
                          input.empty() ? "" : " in " + input.string(), "; expected one or more"));
  }
  check_raw_source(options.storage, source, name);
  detail::check_class_names(source.class_names(), name);
  table_of(source, options);  // throws
}

/// Returns the source to be packed, after everything that can be checked beforehand was found right.
std::unique_ptr<Source> checked_source(const PackOptions& options) {
  check_pack_options(options);
  const Spec spec = parse_spec(SourceKind::kName, options.source);
  auto source = SourceRegistry::make(spec, options.input, options.split);
  check_source(*source, spec.text(), options.input, options);
  return source;
}

/// Runs `body`, and turns an error of the file system into an io_error.
template <class Body>
void with_files(const Body& body) {
  try {
    body();
  } catch (const fs::filesystem_error& error) {
    throw io_error(
        concat(error.path1().string(), ": ", error.code().message(), "; expected that pack can read or write it"));
  }
}

/// The options as the manifest records them.
std::string encoding_text(const StorageOptions& storage) {
  std::string text = concat("encode=", encode_name(storage.encode));
  if (storage.resize_short > 0) text += concat(",resize=", storage.resize_short);
  if (storage.resize_short > 0 || storage.encode == Encode::kJpeg) text += concat(",quality=", storage.quality);
  if (storage.raw_share > 0) text += concat(",raw-share=", storage.raw_share);
  if (storage.max_pixels < kMaxPixels) text += concat(",max-pixels=", storage.max_pixels);
  if (!storage.transcodes) text += ",transcode=off";
  if (!storage.honours_exif) text += ",exif=off";
  return text;
}

std::string shard_file(size_t shard, int shard_count) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "shard-%05zu-of-%05d.safetensors", shard, shard_count);
  return name.data();
}

/// Deals the samples, sorted by class and then by id, to the shards in turn. The counts of a class, and the totals, of
/// any two shards differ by one at most. Ids ascend inside each shard.
std::vector<std::vector<uint64_t>> deal(const Source& source, const detail::ClassTable& classes, size_t shard_count) {
  // The place of each class's next sample in the sorted list. Without classes, all samples are of one.
  std::vector<uint64_t> next(std::max<size_t>(classes.names.size(), 1));
  const uint64_t size = source.size();
  const auto place = [&](uint64_t id) -> uint64_t& {
    return next[static_cast<size_t>(std::max<int64_t>(classes.label(source, id), 0))];
  };
  for (uint64_t id = 0; id < size; ++id) ++place(id);
  uint64_t before = 0;
  for (auto& place : next) before += std::exchange(place, before);
  std::vector<std::vector<uint64_t>> members(shard_count);
  for (uint64_t id = 0; id < size; ++id) members[place(id)++ % shard_count].push_back(id);
  return members;
}

class Packing {
 public:
  Packing(const PackOptions& options, const Source& source, std::string source_text)
      : options_(options),
        source_(source),
        source_text_(std::move(source_text)),
        classes_(table_of(source, options)),
        fields_(detail::packed_fields(source, options.storage)),
        members_(deal(source, classes_, static_cast<size_t>(options.shard_count))),
        partial_(options.output, options.split, key(), empty_tally()),
        codebook_(detail::codebook_for(source, options.storage, options.jobs)),
        encoder_(options.storage, codebook_) {}

  void run(const std::function<void(const PackProgress&)>& on_progress) {
    for (size_t shard = 0; shard < members_.size(); ++shard) files_.push_back(shard_file(shard, options_.shard_count));
    finished_ = partial_.take_over(files_);
    for (size_t shard = 0; shard < members_.size(); ++shard)
      if (finished_[shard]) count_reused(shard);
    const auto report = [&] {
      if (on_progress) on_progress(take_progress());
    };
    const auto body = [&](size_t shard, const std::atomic<bool>& stopped) {
      if (!finished_[shard]) pack_shard(shard, stopped);
    };
    detail::run_parallel(members_.size(), options_.jobs, body, report);
    report();  // reports what was skipped, before manifest() can find that nothing is left
    write_manifest(partial_.folder(), manifest());
    write_skipped();
    check_classes();
    partial_.publish(options_.force);
    report();
  }

 private:
  std::string key() const {
    const std::string text =
        concat(Manifest::kFormatVersion, '\n', source_text_, '\n', source_.fingerprint(), '\n', options_.split, '\n',
               options_.shard_count, '\n', options_.shuffle_seed, '\n', options_.skip_corrupt, '\n',
               encoding_text(options_.storage), '\n', join(classes_.names, "\n"), '\n',
               join(source_.class_names(), "\n"), fields_.text());
    return detail::xxh3_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }

  detail::Tally empty_tally() const { return detail::Tally(classes_.names.size(), fields_.types.size()); }

  /// Throws config_error when another packing has published a split with other classes in the meantime.
  void check_classes() const {
    if (table_of(source_, options_) == classes_) return;
    throw config_error(concat((options_.output / options_.split).string(),
                              ": another split was packed in the meantime, ",
                              "with other classes; expected to pack one split after the other"));
  }

  void count_reused(size_t shard) {
    for (const auto& [id, reason] : finished_[shard]->skipped) note_skipped(concat(source_.where(id), ": ", reason));
    reused_count_ += finished_[shard]->entry.sample_count;
    done_count_ += members_[shard].size();
  }

  PackProgress take_progress() {
    const std::lock_guard lock(skipped_mutex_);
    return {.done_count = done_count_,
            .total_count = source_.size(),
            .seconds = ms_since(start_ns_) / 1000,
            .reused_count = reused_count_,
            .skipped_count = skipped_count_,
            .skipped = std::exchange(skipped_, {}),
            .ignored_count = source_.ignored_count()};
  }

  void pack_shard(size_t shard, const std::atomic<bool>& stopped) {
    const auto& ids = members_[shard];
    const auto order = options_.shuffle_seed < 0
                           ? Order::sequential(ids.size())
                           : Order::shuffled(ids.size(), static_cast<uint64_t>(options_.shuffle_seed), shard);
    const auto path = partial_.folder() / files_[shard];
    ShardWriter writer(path, source_.raw_extent(), codebook_ ? codebook_->bytes() : std::vector<uint8_t>(),
                       fields_.types);
    DecodeScratch scratch;
    detail::FinishedShard finished{.entry = {.file = files_[shard]}, .tally = empty_tally()};
    for (uint64_t i = 0; i < ids.size(); ++i) {
      if (stopped) return;  // another shard failed: this one is given up
      pack_sample(ids[order.at(i)], writer, finished, scratch);
      ++done_count_;
    }
    finished.entry.sample_count = finished.tally.sample_count();
    finished.entry.byte_count = writer.finish();
    const detail::MappedFile written(path);
    read_from(written, [&] { finished.entry.xxh3 = detail::xxh3_hex(written.bytes()); });
    partial_.finish(shard, finished);
    finished_[shard] = std::move(finished);
  }

  /// Runs `body`, and adds the name of the sample to an Error that it throws.
  template <class Body>
  auto named(uint64_t id, const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      throw Error(error.kind(), concat(source_.where(id), ": ", error.what()));
    } catch (const std::bad_alloc&) {
      throw memory_error(source_.where(id), "its pixels", "fewer --jobs, or a lower --max-pixels");
    }
  }

  /// read() of the source names its file in an Error itself.
  SourceSample read(uint64_t id) const {
    try {
      return source_.read(id);
    } catch (const std::bad_alloc&) {
      throw memory_error(source_.where(id), "its bytes", "fewer --jobs");
    }
  }

  /// Reads, encodes, decodes once (so that what is packed can be trained on), writes, and counts. A broken picture is
  /// listed instead, if it is to be skipped.
  void pack_sample(uint64_t id, ShardWriter& writer, detail::FinishedShard& shard, DecodeScratch& scratch) {
    try {
      SourceSample found = read(id);
      std::vector<FieldValue> fields = std::move(found.fields);
      const detail::Encoded encoded = named(id, [&] { return encoder_.encode(id, std::move(found), scratch); });
      named(id, [&] { fields = fields_.checked(std::move(fields), encoded); });
      const std::string path = detail::stored_path(source_.path(id), encoded);
      const Sample sample{.id = id,
                          .label = classes_.label(source_, id),
                          .extent = encoded.extent,
                          .encoding = encoded.encoding,
                          .bytes = encoded.bytes,
                          .orientation = encoded.orientation,
                          .seek_index = encoded.seek_index,
                          .path = path,
                          .codebook = codebook_.get()};
      shard.tally.add(sample.label, decode(sample, scratch));
      writer.add(sample, fields);
      fields_.count(fields, shard.tally);
      if (!shard.entry.first_id) shard.entry.first_id = id;
      shard.transcoded_count += encoded.is_transcoded;
      shard.warned_count += encoded.is_warned;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      if (!options_.skip_corrupt) throw corrupt_error(concat(error.what(), ", or shardprep pack --on-corrupt skip"));
      shard.skipped.push_back(detail::skipped_picture(source_, id, error.what()));
      note_skipped(error.what());
    }
  }

  void note_skipped(const std::string& message) {
    const std::lock_guard lock(skipped_mutex_);
    ++skipped_count_;
    skipped_.push_back(message);
  }

  Picture decode(const Sample& sample, DecodeScratch& scratch) const {
    const Region whole{0, 0, sample.extent.width, sample.extent.height};
    return named(sample.id, [&] {
      return codec_for(sample.encoding).decode(sample, {.region = whole, .channels = sample.extent.channels}, scratch);
    });
  }

  Manifest manifest() const {
    Manifest manifest;
    manifest.split = options_.split;
    manifest.source = source_text_;
    manifest.shuffle_seed = options_.shuffle_seed;
    manifest.storage = encoding_text(options_.storage);
    manifest.class_names = classes_.names;
    detail::Tally total = empty_tally();
    for (const auto& shard : finished_) {
      manifest.shards.push_back(shard->entry);
      manifest.skipped_count += shard->skipped.size();
      manifest.transcoded_count += shard->transcoded_count;
      manifest.warned_count += shard->warned_count;
      total.add(shard->tally);
    }
    manifest.sample_count = total.sample_count();
    if (manifest.sample_count == 0) {
      throw corrupt_error(concat("source ", source_text_, ": all ", manifest.skipped_count,
                                 " pictures are broken; expected one that can be packed"));
    }
    manifest.class_counts = total.class_counts();
    manifest.fields = fields_.with_most(total);
    manifest.channels = total.channels();
    manifest.extent = total.extent();
    manifest.statistics = total.statistics();
    return manifest;
  }

  /// All that were left out of any shard, or no file.
  void write_skipped() const {
    std::vector<detail::SkippedPicture> all;
    for (const auto& shard : finished_) all.insert(all.end(), shard->skipped.begin(), shard->skipped.end());
    if (!all.empty()) detail::write_skipped(partial_.folder() / kSkippedFile, std::move(all), source_);
  }

  const PackOptions& options_;
  const Source& source_;
  const std::string source_text_;
  const detail::ClassTable classes_;
  const detail::PackedFields fields_;
  const std::vector<std::vector<uint64_t>> members_;  // one entry per shard: its ids
  detail::Partial partial_;  // before the codebook, for which pictures are read: an output may not be writable
  const std::shared_ptr<const detail::Codebook> codebook_;
  const detail::Encoder encoder_;
  std::vector<std::string> files_;
  // One entry per shard, written by the thread that packs the shard.
  std::vector<std::optional<detail::FinishedShard>> finished_;
  const int64_t start_ns_ = now_ns();
  uint64_t reused_count_ = 0;
  std::atomic<uint64_t> done_count_{0};
  std::mutex skipped_mutex_;  // guards the next two
  uint64_t skipped_count_ = 0;
  std::vector<std::string> skipped_;
};

}  // namespace

void check_pack_options(const PackOptions& options) {
  if (options.split != "train" && options.split != "test" && options.split != "all")
    throw config_error(concat("pack: split is ", in_quotes(options.split), "; expected train, test or all"));
  if (options.shard_count < 1 || options.shard_count > kMaxShards)
    throw config_error(concat("pack: shards is ", options.shard_count, "; expected 1 to ", kMaxShards));
  if (options.jobs < 0)
    throw config_error(concat("pack: jobs is ", options.jobs, "; expected 0 (one per core) or more"));
  check_storage(options.storage);
  if (options.output.empty()) throw config_error("pack: out is \"\"; expected a folder");
  const auto folder = options.output / options.split;
  const bool is_there = fs::exists(fs::symlink_status(folder));  // a link to nothing would be in the way as well
  if (!options.force && is_there)
    throw config_error(concat(folder.string(), ": exists already; expected a new folder, or --force to replace it"));
  // Replacing deletes what is there. That must never be somebody's pictures, and the input may be this very folder.
  if (is_there && !fs::is_regular_file(folder / "manifest.json"))
    throw config_error(concat(folder.string(), ": no packed data set (no manifest.json); expected one to replace"));
  if (!is_there) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name == "manifest.json" || name == kSkippedFile ||
                         (name.starts_with("shard-") && name.ends_with(".safetensors"));
    if (!is_part || !entry.is_regular_file())
      throw config_error(concat(entry.path().string(), ": is no part of a packed data set, and replacing ",
                                folder.string(), " would delete it; expected it elsewhere"));
  }
}

void check_packing(const PackOptions& options) { checked_source(options); }

void pack(const PackOptions& options, const std::function<void(const PackProgress&)>& on_progress) {
  with_files([&] {
    const auto source = checked_source(options);
    Packing(options, *source, parse_spec(SourceKind::kName, options.source).text()).run(on_progress);
  });
}

void pack(const Source& source, const std::string& name, const PackOptions& options,
          const std::function<void(const PackProgress&)>& on_progress) {
  with_files([&] {
    check_pack_options(options);
    check_source(source, name, {}, options);
    Packing(options, source, name).run(on_progress);
  });
}

}  // namespace penstock
