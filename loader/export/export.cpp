// export_split(): pictures, classes and fields of each shard as other programs have them.
#include "loader/export/export.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/parallel.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/npy.h"
#include "loader/export/field_text.h"
#include "loader/files/read_from.h"
#include "loader/import/tar_writer.h"
#include "loader/shards/dataset.h"
#include "loader/shards/repeated_paths.h"
#include "loader/sources/tar_kinds.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetadata = "metadata.jsonl";

/// A name for the folder of a class.
std::string folder_of_class(std::string name, int64_t label) {
  constexpr size_t kMostBytes = 200;  // of 255, so that the number has room
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  if (name.size() > kMostBytes) {
    name.resize(kMostBytes);
    while (!name.empty() && detail::utf8_text(name) != name) name.pop_back();  // the begin of a letter
    return concat(name, "_", label);
  }
  return name.empty() || name[0] == '.' || name == kMetadata ? "_" + name : name;
}

bool is_file_kind(FieldKind kind) {
  return kind == FieldKind::kBytes || kind == FieldKind::kMask || kind == FieldKind::kInstances ||
         kind == FieldKind::kPicture;
}

/// A picture may be a PNG, a JPEG or an array.
const char* ending_of(const FieldType& type, FieldBytes value) {
  if (type.kind == FieldKind::kPicture && !value.empty() && value[0] == 0x93) return ".npy";
  if (type.kind == FieldKind::kPicture && !value.empty() && value[0] == 0xFF) return ".jpg";
  if (type.kind == FieldKind::kText) return ".txt";
  if (type.kind == FieldKind::kMask || type.kind == FieldKind::kPicture) return ".png";
  return is_file_kind(type.kind) ? ".bin" : ".npy";
}

/// One sample, as it goes out.
struct Out {
  uint64_t id = 0;
  int64_t label = -1;
  std::string path, ending;  // as stored; of the picture, with its dot
  std::vector<uint8_t> picture;
  std::vector<FieldValue> fields;  // as Manifest::fields
};

class Exporting {
 public:
  Exporting(const fs::path& split_folder, const fs::path& output, ExportFormat format)
      : dataset_(Dataset::open_alone(split_folder)),
        output_(output),
        format_(format),
        repeated_(detail::repeated_paths(*dataset_)),
        found_(static_cast<size_t>(dataset_->shard_count())),
        lines_(found_.size()) {}

  Problems run(int jobs, const std::function<void(const UnpackProgress&)>& on_progress) {
    const auto report = [&] {
      if (on_progress) on_progress({done_count_, dataset_->size(), byte_count_, ms_since(start_ns_) / 1000});
    };
    format_ == ExportFormat::kImageFolder ? check_keys() : check_endings();
    fs::create_directories(output_);
    const auto body = [&](size_t shard, const std::atomic<bool>& stopped) { write_shard(shard, stopped); };
    detail::run_parallel(found_.size(), jobs, body, report);
    finish();
    report();
    Problems all;
    for (size_t i = 0; i < found_.size(); ++i)
      all.append(found_[i], (dataset_->folder() / manifest().shards[i].file).string());
    return all;
  }

 private:
  const Manifest& manifest() const { return dataset_->manifest(); }

  /// A line of metadata.jsonl is one object, in which no field may have a key that something else has.
  void check_keys() const {
    std::set<std::string> taken{"file_name"};
    if (has_classes()) taken.insert("label");
    for (const auto& type : manifest().fields) {
      const std::string key = is_file_kind(type.kind) ? type.name + "_file_name" : type.name;
      if (!taken.insert(key).second)
        throw config_error(
            concat("export: field ", in_quotes(type.name), " would be ", in_quotes(key),
                   " in metadata.jsonl, which is there already; expected another name, or --to webdataset"));
    }
  }

  /// WebDataset's readers, ours too, take the endings of members in small letters, as they are on some file systems.
  void check_endings() const {
    std::map<std::string, std::string> taken;
    for (const auto& type : manifest().fields) {
      std::string ending = type.name;
      std::transform(ending.begin(), ending.end(), ending.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      if (const auto [other, is_new] = taken.emplace(ending, type.name); !is_new)
        throw config_error(concat("export: fields ", in_quotes(other->second), " and ", in_quotes(type.name),
                                  " would both be ", in_quotes(ending),
                                  " for readers of tars, which take names in small letters; expected names that differ "
                                  "in more, or --to image-folder"));
    }
  }

  void write_shard(size_t shard, const std::atomic<bool>& stopped) {
    std::optional<detail::TarWriter> tar;
    if (format_ == ExportFormat::kWebDataset) {
      tar.emplace(output_ / tar_name(shard));
      const std::string kinds = kinds_text();
      tar->add(std::string(detail::kKindsMember), as_bytes(kinds));
    }
    const uint64_t end = dataset_->shard_begin(static_cast<int>(shard) + 1);
    for (uint64_t i = dataset_->shard_begin(static_cast<int>(shard)); i < end; ++i) {
      if (stopped) return;
      const auto sample = sample_at(i, found_[shard]);
      if (!sample) continue;
      if (tar)
        add_to_tar(*sample, *tar);
      else
        lines_[shard] += write_files(*sample);
      ++done_count_;
    }
    if (tar) {
      tar->finish();
      byte_count_ += tar->byte_count();
    }
  }

  std::string tar_name(size_t shard) const { return concat(manifest().split, printed("-%06zu.tar", shard)); }

  std::string kinds_text() const {
    detail::TarKinds kinds{manifest().class_names, manifest().fields};
    for (auto& type : kinds.fields) type.most = 0;  // of a packed data set alone
    return detail::text_of_kinds(kinds);
  }

  /// Nothing for a broken sample, whose reason is added to `found`.
  std::optional<Out> sample_at(uint64_t index, Problems& found) const {
    Out out;
    const auto make = [&] {
      const Sample sample = dataset_->checked_at(index);
      read_from(*dataset_, index, [&] {
        try {
          out = {sample.id,
                 sample.label,
                 std::string(sample.path),
                 file_extension(sample.encoding, sample.extent.channels),
                 codec_for(sample.encoding).file(sample),
                 {}};
        } catch (const Error& error) {
          throw Error(error.kind(), concat(dataset_->where(index), ": ", error.what()));
        }
        for (size_t field = 0; field < manifest().fields.size(); ++field) {
          const HeldField value = dataset_->field(index, field);
          out.fields.emplace_back(value.bytes.begin(), value.bytes.end());
        }
      });
    };
    return found.passes("", make) ? std::optional(std::move(out)) : std::nullopt;
  }

  void add_to_tar(const Out& sample, detail::TarWriter& tar) const {
    const std::string begin = printed("%09llu", static_cast<unsigned long long>(sample.id));
    tar.add(begin + sample.ending, sample.picture);
    const auto add = [&](const std::string& ending, std::span<const uint8_t> bytes) {
      tar.add(begin + "." + ending, bytes);
    };
    if (has_classes()) {
      const std::string label = std::to_string(sample.label);
      add("cls", as_bytes(label));
    }
    for (size_t i = 0; i < sample.fields.size(); ++i) {
      const FieldType& type = manifest().fields[i];
      const std::string ending = type.name + ending_of(type, sample.fields[i]);
      if (type.kind == FieldKind::kText || is_file_kind(type.kind)) {
        add(ending, sample.fields[i]);
        continue;
      }
      auto shape = type.shape;
      if (type.is_variable()) shape[0] = static_cast<int64_t>(sample.fields[i].size() / type.entry_bytes());
      add(ending, detail::npy_file({type.dtype, shape, sample.fields[i]}));
    }
  }

  bool has_classes() const { return !manifest().class_names.empty(); }

  /// Where the picture goes, below the split's folder: its own path where that begins with its class, without the
  /// split's folder.
  std::string file_of(const Out& sample) const {
    const std::string split = manifest().split + "/";
    const std::string path = sample.path.starts_with(split) ? sample.path.substr(split.size()) : sample.path;
    const std::string folder =
        has_classes() ? folder_of_class(manifest().class_names[static_cast<size_t>(sample.label)], sample.label) : "";
    const fs::path parts(path);
    bool is_plain = !path.empty() && parts.is_relative() && parts.has_filename() &&
                    path.find('\0') == std::string::npos && (folder.empty() || path.starts_with(folder + "/")) &&
                    *parts.begin() != kMetadata;
    for (const auto& part : parts) is_plain &= !part.empty() && part.native()[0] != '.';
    const std::string file =
        is_plain && repeated_.contains(sample.path) ? detail::with_id(path, sample.id).string() : path;
    if (is_plain && detail::has_possible_length(output_ / manifest().split / file)) return file;
    return concat(folder, folder.empty() ? "" : "/", sample.id, sample.ending);
  }

  /// Writes the sample's files, and returns its line of metadata.jsonl.
  std::string write_files(const Out& sample) {
    const fs::path root = output_ / manifest().split;
    const std::string file = file_of(sample);
    write(root / file, sample.picture);
    nlohmann::ordered_json line{{"file_name", file}};
    if (has_classes()) line["label"] = manifest().class_names[static_cast<size_t>(sample.label)];
    for (size_t i = 0; i < sample.fields.size(); ++i) {
      const FieldType& type = manifest().fields[i];
      if (!is_file_kind(type.kind)) {
        try {
          line[type.name] = detail::json_of_value(type, sample.fields[i]);
        } catch (const Error& error) {
          throw Error(error.kind(), concat("export: id ", sample.id, " (", file, "): ", error.what()));
        }
        continue;
      }
      const std::string name = concat(".fields/", type.name, "/", sample.id, ending_of(type, sample.fields[i]));
      write(root / name, sample.fields[i]);
      line[type.name + "_file_name"] = name;
    }
    return json_text(line) + "\n";
  }

  /// Never replaces another file. It is written under its own name, without one aside and a rename, which were half of
  /// the time of small files: whoever exports renames the whole output at the end.
  void write(const fs::path& path, std::span<const uint8_t> bytes) {
    int file = open_new(path);
    if (file < 0 && errno == ENOENT) {
      fs::create_directories(path.parent_path());
      file = open_new(path);
    }
    if (file < 0) throw errno_error(path.string(), "expected to create it");
    bool is_written = true;
    for (auto left = bytes; !left.empty() && is_written;) {
      const ssize_t count = ::write(file, left.data(), left.size());
      is_written = count > 0 || (count < 0 && errno == EINTR);
      left = left.subspan(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
    const int code = errno;
    const bool is_closed = close(file) == 0;
    if (!is_written) errno = code;
    if (!is_written || !is_closed)
      throw errno_error(path.string(), concat("expected to write ", bytes.size(), " bytes"));
    byte_count_ += bytes.size();
  }

  static int open_new(const fs::path& path) {
    return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }

  void finish() {
    if (format_ == ExportFormat::kWebDataset) {
      std::string names;
      for (const auto& name : manifest().class_names) names += name + "\n";
      if (!names.empty()) write_text(output_ / "classes.txt", names);
      return;
    }
    AtomicFile metadata(output_ / manifest().split / kMetadata);
    for (const auto& lines : lines_) metadata.write(lines);
    metadata.commit_as_new();
  }

  std::shared_ptr<const Dataset> dataset_;
  fs::path output_;
  ExportFormat format_;
  std::unordered_set<std::string> repeated_;
  std::vector<Problems> found_;     // one entry per shard
  std::vector<std::string> lines_;  // of metadata.jsonl, one entry per shard
  const int64_t start_ns_ = now_ns();
  std::atomic<uint64_t> done_count_{0}, byte_count_{0};
};

}  // namespace

Problems export_split(const fs::path& split_folder, const fs::path& output, ExportFormat format, int jobs,
                      const std::function<void(const UnpackProgress&)>& on_progress) {
  if (jobs < 0) throw config_error(concat("export: jobs is ", jobs, "; expected 0 (one per core) or more"));
  try {
    return Exporting(split_folder, output, format).run(jobs, on_progress);
  } catch (const fs::filesystem_error& error) {
    throw io_error(concat(error.path1().string(), ": ", error.code().message(), "; expected that export can write it"));
  }
}

}  // namespace penstock
