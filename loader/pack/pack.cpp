// pack(): deals samples to shards, checks and writes each of them, and publishes all shards at once.
#include "loader/pack/pack.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "core/parallel.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/checksum.h"
#include "loader/files/files.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/order/order.h"
#include "loader/pack/class_table.h"
#include "loader/pack/codebook_file.h"
#include "loader/pack/encoder.h"
#include "loader/pack/merge.h"
#include "loader/pack/packed_fields.h"
#include "loader/pack/part.h"
#include "loader/pack/partial.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "loader/shards/split_upload.h"
#include "loader/sources/joined_source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

detail::ClassTable table_of(const Source& source, const PackOptions& options) {
  return detail::class_table(source.class_names(), source.fields(), options.output, options.split, options.packed_next);
}

/// `input` is the folder that the source reads, if it reads one.
void check_source(const Source& source, const std::string& name, const std::filesystem::path& input,
                  const PackOptions& options) {
  if (source.size() == 0) {
    throw io_error(concat("source ", name, ": no samples for split ", options.split,
                          input.empty() ? "" : " in " + input.string(), "; expected one or more"));
  }
  if (source.raw_extent()) detail::check_raw_source(options.storage, source.raw_pixels(), name);
  detail::check_class_names(source.class_names(), name);
  table_of(source, options);  // throws
}

/// Returns the source to be packed, after everything that can be checked beforehand was found right.
std::unique_ptr<Source> checked_source(const PackOptions& options) {
  check_pack_options(options);
  const Spec spec = parse_spec(SourceKind::kName, options.source);
  auto source = detail::open_source(spec, options.input, options.more_inputs, options.split);
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

class Packing {
 public:
  Packing(const PackOptions& options, const Source& source, std::string source_text)
      : options_(options),
        source_(source),
        source_text_(std::move(source_text)),
        classes_(table_of(source, options)),
        fields_(detail::packed_fields(source, options.storage)),
        members_(own_members()),
        key_(key()),
        far_(is_local(options.output)
                 ? nullptr
                 : std::make_unique<detail::SplitUpload>(options.output / options.split, options.force)),
        partial_(detail::open_partial(local_options(), key_, given_codebook(), empty_tally())),
        codebook_(partial_ ? detail::codebook_of(source, options, key_) : nullptr),
        encoder_(options.storage, codebook_, options.skip_corrupt ? ErrorKind::kCorrupt : ErrorKind::kConfig) {}

  void run(const std::function<void(const PackProgress&)>& on_progress) {
    if (!partial_) return report_finished(on_progress);
    for (size_t shard = 0; shard < members_.size(); ++shard)
      files_.push_back(detail::shard_file(number_of(shard), options_.shard_count));
    finished_ = far_ ? partial_->take_over(files_, [this](const auto& entry) { return far_->has(entry); })
                     : partial_->take_over(files_);
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
    write_manifest(partial_->folder(), manifest());
    write_skipped();
    check_classes();
    if (options_.part)
      publish_part();
    else if (far_)
      far_->publish(partial_->folder(), kSkippedFile, report);
    else
      partial_->publish(options_.force);
    if (!on_progress) return;
    PackProgress last = take_progress();
    for (auto& note : field_notes()) last.notes.push_back(std::move(note));
    on_progress(last);
  }

 private:
  /// The number among all shards of the data set.
  size_t number_of(size_t shard) const {
    if (!options_.part || options_.part->has_own_rows()) return shard;
    return static_cast<size_t>(options_.part->index) + shard * static_cast<size_t>(options_.part->count);
  }

  /// The samples of the shards that are packed here, one entry per shard.
  std::vector<std::vector<uint64_t>> own_members() const {
    auto all = detail::deal(source_, classes_, static_cast<size_t>(options_.shard_count));
    std::vector<std::vector<uint64_t>> own;
    for (size_t shard = 0; number_of(shard) < all.size(); ++shard) own.push_back(std::move(all[number_of(shard)]));
    return own;
  }

  /// What open_partial() takes: where the packing works.
  PackOptions local_options() const {
    PackOptions options = options_;
    if (far_) options.output = far_->staging();
    return options;
  }

  std::vector<std::string> field_notes() const {
    uint64_t unsure_count = 0, flat_polygon_count = 0;
    for (const auto& shard : finished_) {
      unsure_count += shard->unsure_count;
      flat_polygon_count += shard->flat_polygon_count;
    }
    return detail::field_notes(unsure_count, flat_polygon_count);
  }

  uint64_t first_id() const { return options_.part ? options_.part->first_id() : 0; }

  std::string given_codebook() const {
    return options_.codebook.empty() ? ""
                                     : detail::hash_text(read_file(options_.codebook, detail::Codebook::kByteCount));
  }

  void report_finished(const std::function<void(const PackProgress&)>& on_progress) {
    done_count_ = reused_count_ = total_count_;
    if (on_progress) on_progress(take_progress());
  }

  void publish_part() {
    detail::PartFile part;
    part.key = key_;
    part.codebook = codebook_ ? detail::hash_text(codebook_->bytes()) : "";
    part.index = options_.part->index;
    part.count = options_.part->count;
    part.tally = total_tally().numbers();
    for (const auto& shard : finished_) part.skipped_count += shard->skipped.size();
    detail::publish_part(*partial_, options_, std::move(part));
  }

  /// Equal for all that may become one data set. Parts with rows of their own have no pictures in common.
  std::string key() const {
    const bool is_apart = options_.part && options_.part->has_own_rows();
    const std::string text =
        concat(Manifest::kFormatVersion, '\n', source_text_, '\n', is_apart ? "" : source_.fingerprint(), '\n',
               options_.split, '\n', is_apart ? 0 : options_.shard_count, '\n', options_.shuffle_seed, '\n',
               options_.skip_corrupt, '\n', detail::encoding_text(options_.storage), '\n', join(classes_.names, "\n"),
               '\n', join(source_.class_names(), "\n"), fields_.text());
    return detail::xxh3_hex(as_bytes(text));
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
    const MutexLock lock(skipped_mutex_);
    return {.done_count = done_count_,
            .total_count = total_count_,
            .seconds = ms_since(start_ns_) / 1000,
            .reused_count = reused_count_,
            .skipped_count = skipped_count_,
            .skipped = std::exchange(skipped_, {}),
            .ignored = source_.ignored(),
            .notes = source_.notes()};
  }

  void pack_shard(size_t shard, const std::atomic<bool>& stopped) {
    const auto& ids = members_[shard];
    const auto order =
        options_.shuffle_seed < 0
            ? Order::sequential(ids.size())
            : Order::shuffled(ids.size(), static_cast<uint64_t>(options_.shuffle_seed), number_of(shard));
    const auto path = partial_->folder() / files_[shard];
    ShardWriter writer(path, source_.raw_extent(), codebook_ ? codebook_->bytes() : std::vector<uint8_t>(),
                       fields_.types, options_.storage.pixels);
    DecodeScratch scratch;
    detail::FinishedShard finished{.entry = {.file = files_[shard]}, .tally = empty_tally()};
    for (uint64_t i = 0; i < ids.size(); ++i) {
      if (stopped) return;  // another shard failed: this one is given up
      pack_sample(ids[order.at(i)], writer, finished, scratch);
      ++done_count_;
    }
    finished.entry.sample_count = finished.tally.sample_count();
    writer.finish();
    const detail::MappedFile written(path);
    read_from(written, [&] { finished.entry.set_facts(detail::facts_of(written.bytes())); });
    if (far_) far_->send(path, finished.entry, stopped);
    partial_->finish(shard, finished);
    if (far_) fs::remove(path);
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
      std::vector<FieldValue> given = std::move(found.fields);
      const Annotated annotated = found.annotated;
      const detail::Encoded encoded =
          named(id, [&] { return encoder_.encode(first_id() + id, std::move(found), scratch); });
      const auto fields = named(id, [&] { return fields_.checked(std::move(given), encoded, annotated); });
      const std::string path = detail::stored_path(source_.path(id), encoded);
      const Sample sample{.id = first_id() + id,
                          .label = classes_.label(source_, id),
                          .extent = encoded.extent,
                          .encoding = encoded.encoding,
                          .bytes = encoded.bytes,
                          .orientation = encoded.orientation,
                          .seek_index = encoded.seek_index,
                          .path = path,
                          .codebook = codebook_.get()};
      const Picture decoded = decode(sample, scratch);
      named(id, [&] { shard.tally.add(sample.label, decoded); });
      writer.add(sample, fields.values);
      fields_.count(fields.values, shard.tally);
      if (!shard.entry.first_id) shard.entry.first_id = sample.id;
      shard.transcoded_count += encoded.is_transcoded;
      shard.warned_count += encoded.is_warned;
      shard.unsure_count += fields.is_unsure;
      shard.flat_polygon_count += fields.flat_polygon_count;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      if (!options_.skip_corrupt) throw corrupt_error(concat(error.what(), ", or shardprep pack --on-corrupt skip"));
      shard.skipped.push_back(detail::skipped_picture(source_, id, error.what()));
      note_skipped(error.what());
    }
  }

  void note_skipped(const std::string& message) {
    const MutexLock lock(skipped_mutex_);
    ++skipped_count_;
    skipped_.push_back(message);
  }

  Picture decode(const Sample& sample, DecodeScratch& scratch) const {
    const Region whole{0, 0, sample.extent.width, sample.extent.height};
    return named(sample.id - first_id(), [&] {
      return codec_for(sample.encoding).decode(sample, {.region = whole, .channels = sample.extent.channels}, scratch);
    });
  }

  Manifest manifest() const {
    Manifest manifest;
    manifest.split = options_.split;
    manifest.source = source_text_;
    manifest.shuffle_seed = options_.shuffle_seed;
    manifest.storage = detail::encoding_text(options_.storage);
    manifest.class_names = classes_.names;
    manifest.fields = fields_.types;
    for (const auto& shard : finished_) {
      manifest.shards.push_back(shard->entry);
      manifest.skipped_count += shard->skipped.size();
      manifest.transcoded_count += shard->transcoded_count;
      manifest.warned_count += shard->warned_count;
    }
    detail::set_totals(manifest, total_tally(), /*may_be_empty=*/options_.part.has_value());
    return manifest;
  }

  detail::Tally total_tally() const {
    detail::Tally total = empty_tally();
    for (const auto& shard : finished_) {
      // Pictures of one shard are of one kind: where it is another than before, the first of them shows it.
      const auto add = [&] { total.add(shard->tally); };
      shard->entry.first_id ? named(*shard->entry.first_id - first_id(), add) : add();
    }
    return total;
  }

  /// All that were left out of any shard, or no file.
  void write_skipped() const {
    std::vector<detail::SkippedPicture> all;
    for (const auto& shard : finished_) all.insert(all.end(), shard->skipped.begin(), shard->skipped.end());
    if (!all.empty()) detail::write_skipped(partial_->folder() / kSkippedFile, std::move(all), source_, first_id());
  }

  const PackOptions& options_;
  const Source& source_;
  const std::string source_text_;
  const detail::ClassTable classes_;
  const detail::PackedFields fields_;
  const std::vector<std::vector<uint64_t>> members_;  // one entry per shard: its ids
  const std::string key_;
  const std::unique_ptr<detail::SplitUpload> far_;  // null: the output is local
  // Before the codebook, for which pictures are read: an output may not be writable. Null: this part is finished.
  const std::unique_ptr<detail::Partial> partial_;
  const std::shared_ptr<const detail::Codebook> codebook_;
  const detail::Encoder encoder_;
  std::vector<std::string> files_;
  // One entry per shard, written by the thread that packs the shard.
  std::vector<std::optional<detail::FinishedShard>> finished_;
  const int64_t start_ns_ = now_ns();
  const uint64_t total_count_ = std::accumulate(members_.begin(), members_.end(), uint64_t{0},
                                                [](uint64_t sum, const auto& ids) { return sum + ids.size(); });
  uint64_t reused_count_ = 0;
  std::atomic<uint64_t> done_count_{0};
  Mutex skipped_mutex_;
  uint64_t skipped_count_ PENSTOCK_GUARDED_BY(skipped_mutex_) = 0;
  std::vector<std::string> skipped_ PENSTOCK_GUARDED_BY(skipped_mutex_);
};

}  // namespace

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
