// unpack(): writes the samples of each shard to files.
#include "loader/pack/unpack.h"

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/read_from.h"
#include "loader/shards/dataset.h"
#include "loader/shards/repeated_paths.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Whether `path` stays below the output folder and is a plain name for every system call.
bool is_safe(const fs::path& path) {
  if (path.empty() || path.is_absolute() || !path.has_filename()) return false;
  for (const auto& part : path)
    if (part == ".." || part == "." || part.empty()) return false;
  return path.native().find('\0') == std::string::npos;
}

/// The folder name for a class name.
std::string folder_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  return name.empty() || name == "." || name == ".." ? "_" : name;
}

class Unpacking {
 public:
  Unpacking(const fs::path& split_folder, const fs::path& output)
      : dataset_(Dataset::open_alone(split_folder)),
        output_(output),
        repeated_(detail::repeated_paths(*dataset_)),
        found_(static_cast<size_t>(dataset_->shard_count())) {}

  Problems run(int jobs, const std::function<void(const UnpackProgress&)>& on_progress) {
    const auto report = [&] {
      if (on_progress) on_progress({done_count_, dataset_->size(), byte_count_, ms_since(start_ns_) / 1000});
    };
    const auto body = [&](size_t shard, const std::atomic<bool>& stopped) { write_shard(shard, stopped); };
    detail::run_parallel(found_.size(), jobs, body, report);
    report();
    Problems all;
    for (size_t i = 0; i < found_.size(); ++i)
      all.append(found_[i], (dataset_->folder() / dataset_->manifest().shards[i].file).string());
    return all;
  }

 private:
  void write_shard(size_t shard, const std::atomic<bool>& stopped) {
    const uint64_t end = dataset_->shard_begin(static_cast<int>(shard) + 1);
    for (uint64_t i = dataset_->shard_begin(static_cast<int>(shard)); i < end && !stopped; ++i) {
      const auto file = file_at(i, found_[shard]);
      if (!file) continue;
      write_file(*file);
      ++done_count_;
    }
  }

  struct File {
    fs::path path;
    std::vector<uint8_t> bytes;
  };

  /// Returns nothing when the sample is broken, and adds the reason to `found`.
  std::optional<File> file_at(uint64_t i, Problems& found) const {
    std::optional<Sample> sample;
    if (!found.passes("", [&] { sample = dataset_->checked_at(i); })) return {};
    File file;
    const auto make = [&] {
      try {
        file = {path_of(*sample), codec_for(sample->encoding).file(*sample)};
      } catch (const Error& error) {
        throw Error(error.kind(), concat(dataset_->where(i), ": ", error.what()));
      }
    };
    const bool is_made = found.passes("", [&] { read_from(*dataset_, i, make); });
    return is_made ? std::optional(std::move(file)) : std::nullopt;
  }

  fs::path path_of(const Sample& sample) const {
    const Manifest& manifest = dataset_->manifest();
    if (sample.path.empty()) {
      const fs::path folder = sample.label < 0 ? "" : folder_name(manifest.class_name(sample.label));
      return output_ / manifest.split / folder /
             concat(sample.id, file_extension(sample.encoding, sample.extent.channels));
    }
    if (!is_safe(sample.path))
      throw corrupt_error(concat("path is ", in_quotes(sample.path), "; expected one below the data set's folder"));
    const std::string path(sample.path);
    const fs::path file = output_ / (repeated_.contains(path) ? detail::with_id(path, sample.id) : fs::path(path));
    if (detail::has_possible_length(file)) return file;
    const std::string own = concat(sample.id, file_extension(sample.encoding, sample.extent.channels));
    return detail::has_possible_length(file.parent_path() / own) ? file.parent_path() / own
                                                                 : output_ / manifest.split / own;
  }

  /// Never replaces another file.
  void write_file(const File& file) {
    fs::create_directories(file.path.parent_path());
    AtomicFile out(file.path);
    out.write(file.bytes);
    out.commit_as_new();
    byte_count_ += file.bytes.size();
  }

  std::shared_ptr<const Dataset> dataset_;
  fs::path output_;
  std::unordered_set<std::string> repeated_;
  std::vector<Problems> found_;  // one entry per shard
  const int64_t start_ns_ = now_ns();
  std::atomic<uint64_t> done_count_{0}, byte_count_{0};
};

}  // namespace

Problems unpack(const fs::path& split_folder, const fs::path& output, int jobs,
                const std::function<void(const UnpackProgress&)>& on_progress) {
  if (jobs < 0) throw config_error(concat("unpack: jobs is ", jobs, "; expected 0 (one per core) or more"));
  try {
    return Unpacking(split_folder, output).run(jobs, on_progress);
  } catch (const fs::filesystem_error& error) {
    throw io_error(concat(error.path1().string(), ": ", error.code().message(), "; expected that unpack can write it"));
  }
}

}  // namespace penstock
