// Lists: written from any source; read as the files that they name, or as the source with a check of its labels.
#include "loader/pack/list.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/checksum.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kVersionKey = "penstock_list";
constexpr int kVersion = 1;
constexpr uint64_t kMostListBytes = uint64_t{1} << 36;
constexpr uint64_t kCompared = 16;  // samples of which write_list() compares what the source reads with the file

struct Row {
  std::string path;  // below the input
  uint64_t byte_count = 0;
  int64_t label = -1;
};

/// Whether a sample is the file that has its path, no more and no less.
bool is_file(const Source& source, const ListHead& head, uint64_t id) {
  const auto path = head.input / source.path(id);
  if (source.path(id).empty() || !fs::is_regular_file(path)) return false;
  try {
    const auto bytes = source.read(id).bytes;
    return fs::file_size(path) == bytes.size() && bytes == read_file(path, bytes.size());
  } catch (const Error&) {  // of a broken picture, packing will say so
    return true;
  }
}

/// Whether all samples are files that need nothing but their label. Looks at some of them.
bool has_files(const Source& source, const ListHead& head) {
  if (source.size() == 0 || !source.fields().empty() || source.raw_extent()) return false;
  const uint64_t count = std::min(source.size(), kCompared);
  for (uint64_t i = 0; i < count; ++i)
    if (!is_file(source, head, i * source.size() / count)) return false;
  return true;
}

std::string checked_utf8(const std::string& text, const std::string& where) {
  if (detail::utf8_text(text) == text) return text;
  throw io_error(concat(where, ": name is no UTF-8; expected such names in a list, or to pack without one"));
}

/// The lines of a list, with the place of each for messages.
class ListReader {
 public:
  explicit ListReader(const fs::path& path) : name_(path.string()) {
    const RegularFile checked(path);  // no pipe, which could be read only once
    if (static_cast<uint64_t>(checked.status().st_size) > kMostListBytes)
      throw corrupt_error(concat(name_, ": ", checked.status().st_size, " bytes; expected at most ", kMostListBytes));
    file_.open(path, std::ios::binary);
  }

  /// Returns whether there was one more.
  bool next(json& object) {
    const bool is_whole(file_.getline(line_.get(), kMostLineBytes));
    const auto count = static_cast<size_t>(file_.gcount());
    if (count == 0) return false;
    ++number_;
    if (!is_whole) throw corrupt_error(concat(where(), ": more than ", count, " bytes; expected shorter lines"));
    const std::string line(line_.get(), count - (file_.eof() ? 0 : 1));  // without its end
    hash_ += line + '\n';
    if (hash_.size() > kHashed) hash_ = hash_text();
    object = detail::parse_strict_json(line, where(), 2);
    if (!object.is_object()) throw corrupt_error(concat(where(), ": is ", in_quotes(line), "; expected a JSON object"));
    return true;
  }

  std::string where() const { return concat(name_, ": line ", number_); }
  /// The checksum of all lines read so far.
  std::string hash_text() const { return detail::xxh3_hex(as_bytes(hash_)); }

  template <class Value>
  Value value(const json& object, const char* key) const {
    try {
      const json& found = object.at(key);
      if constexpr (std::is_same_v<Value, int64_t> || std::is_same_v<Value, uint64_t>) {
        // JSON's library would cut 1.9 to 1, and take 2^64 - 1 for -1.
        const bool fits = found.is_number_unsigned()
                              ? found.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Value>::max())
                              : found.is_number_integer() && std::is_signed_v<Value>;
        if (found.is_number() && !fits)
          throw corrupt_error(concat(where(), ": ", key, " is ", shortened(found.dump()), "; expected a whole number",
                                     std::is_signed_v<Value> ? "" : ", 0 or more"));
      }
      return found.get<Value>();
    } catch (const json::exception&) {
      throw corrupt_error(
          concat(where(), ": has no ", key, ", or one of another type; expected what shardprep list ", "writes"));
    }
  }

 private:
  static constexpr size_t kHashed = 1 << 20;
  static constexpr std::streamsize kMostLineBytes = 1 << 26;  // the first line has the names of all classes
  std::string name_, hash_;
  std::unique_ptr<char[]> line_{new char[kMostLineBytes]};  // not cleared: most of it is never in memory
  std::ifstream file_;
  uint64_t number_ = 0;
};

ListHead head_of(ListReader& lines, json& object) {
  if (!lines.next(object) || !object.contains(kVersionKey) || object[kVersionKey] != kVersion) {
    throw corrupt_error(concat(lines.where(), ": no ", kVersionKey, " ", kVersion,
                               " in the first line; expected a file that shardprep list has written"));
  }
  ListHead head{lines.value<std::string>(object, "source"), lines.value<std::string>(object, "split"),
                lines.value<std::string>(object, "input")};
  if (head.split != "train" && head.split != "test" && head.split != "all")
    throw corrupt_error(concat(lines.where(), ": split is ", in_quotes(head.split), "; expected train, test or all"));
  return head;
}

/// A path that stays below the input.
void check_path(const std::string& path, const std::string& where) {
  const fs::path parts(path);
  const bool leaves = parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (path.empty() || leaves || path.find('\0') != std::string::npos)
    throw corrupt_error(concat(where, ": path is ", in_quotes(path), "; expected one below the input folder"));
}

class ListedSource final : public Source {
 public:
  ListedSource(const fs::path& list, const fs::path& input) {
    ListReader lines(list);
    json object;
    head_ = head_of(lines, object);
    if (!input.empty()) head_.input = input;
    class_names_ = lines.value<std::vector<std::string>>(object, "classes");
    has_files_ = lines.value<bool>(object, "files");
    ignored_.count = lines.value<uint64_t>(object, "ignored");
    const auto count = lines.value<uint64_t>(object, "samples");
    while (lines.next(object)) add_row(lines, object);
    if (rows_.size() != count) {
      throw corrupt_error(concat(list.string(), ": ", rows_.size(), " samples; expected ", count,
                                 ", as the first line says: the file is cut short, or was changed"));
    }
    fingerprint_ = lines.hash_text();
    if (!has_files_) check_inner(list);
  }

  uint64_t size() const override { return rows_.size(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override { return rows_[index].label; }
  std::vector<FieldType> fields() const override { return has_files_ ? std::vector<FieldType>() : inner().fields(); }
  std::string fingerprint() const override { return has_files_ ? fingerprint_ : fingerprint_ + inner().fingerprint(); }
  std::string where(uint64_t index) const override {
    return has_files_ ? file_of(index).string() : inner().where(index);
  }
  std::string path(uint64_t index) const override { return has_files_ ? rows_[index].path : inner().path(index); }
  std::optional<Extent> raw_extent() const override { return has_files_ ? std::nullopt : inner().raw_extent(); }
  PixelType raw_pixels() const override { return has_files_ ? PixelType::kU8 : inner().raw_pixels(); }
  IgnoredFiles ignored() const override { return ignored_; }
  std::vector<std::string> notes() const override { return has_files_ ? std::vector<std::string>() : inner().notes(); }

  SourceSample read(uint64_t index) const override {
    if (!has_files_) return inner().read(index);
    const auto file = file_of(index);
    const auto& row = rows_[index];
    auto bytes = read_file(file, row.byte_count);
    if (bytes.size() != row.byte_count)
      throw io_error(concat(file.string(), ": ", bytes.size(), " bytes; expected ", row.byte_count,
                            ", as in the list: make a new one"));
    try {
      const Encoding encoding = detect_encoding(bytes);
      const Extent extent = codec_for(encoding).probe(bytes);
      return {std::move(bytes), encoding, extent};
    } catch (const Error& error) {
      // A format that only the source itself can read. Where it cannot either, its error is the same.
      if (inner().size() == size() && inner().path(index) == row.path) return inner().read(index);
      throw Error(error.kind(), concat(file.string(), ": ", error.what()));
    }
  }

 private:
  void add_row(const ListReader& lines, const json& object) {
    Row row;
    if (has_files_) {
      row.path = lines.value<std::string>(object, "path");
      row.byte_count = lines.value<uint64_t>(object, "bytes");
      check_path(row.path, lines.where());
    }
    if (!class_names_.empty()) row.label = lines.value<int64_t>(object, "label");
    if (class_names_.empty() && object.contains("label"))
      throw corrupt_error(concat(lines.where(), ": label is ", shortened(object["label"].dump()),
                                 ", and the first line has no classes; expected both or none"));
    const auto class_count = static_cast<int64_t>(class_names_.size());
    if (!class_names_.empty() && (row.label < 0 || row.label >= class_count))
      throw corrupt_error(concat(lines.where(), ": label is ", row.label, "; expected 0 to ", class_count - 1));
    rows_.push_back(std::move(row));
  }

  fs::path file_of(uint64_t index) const { return head_.input / rows_[index].path; }

  /// The source itself, for samples that are no files.
  const Source& inner() const {
    std::call_once(once_, [&] {
      inner_ = SourceRegistry::make(parse_spec(SourceKind::kName, head_.source), head_.input, head_.split);
    });
    return *inner_;
  }

  /// Throws io_error where the source has changed since it was listed.
  void check_inner(const fs::path& list) const {
    const Source& source = inner();
    bool is_same = source.size() == rows_.size() && source.class_names() == class_names_;
    for (uint64_t i = 0; is_same && !class_names_.empty() && i < rows_.size(); ++i)
      is_same = source.label(i) == rows_[i].label;
    if (!is_same) {
      throw io_error(concat(list.string(), ": source ", head_.source, " has ", source.size(),
                            " samples or other labels; expected the ", rows_.size(), " of the list: make a new one"));
    }
  }

  ListHead head_;
  std::vector<std::string> class_names_;
  bool has_files_ = false;
  std::vector<Row> rows_;
  IgnoredFiles ignored_;  // their number alone
  std::string fingerprint_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const Source> inner_;
};

}  // namespace

void write_list(const Source& source, const ListHead& head, const fs::path& path) {
  const bool of_files = has_files(source, head);
  const auto classes = source.class_names();
  for (const auto& name : classes) checked_utf8(name, concat("class ", in_quotes(name)));
  AtomicFile file(path);
  file.write(json_text(nlohmann::ordered_json{{kVersionKey, kVersion},
                                              {"source", head.source},
                                              {"split", head.split},
                                              {"input", checked_utf8(head.input.string(), head.input.string())},
                                              {"samples", source.size()},
                                              {"files", of_files},
                                              {"ignored", source.ignored().count},
                                              {"classes", classes}}) +
             "\n");
  for (uint64_t id = 0; id < source.size(); ++id) {
    nlohmann::ordered_json line = nlohmann::ordered_json::object();
    if (of_files) {
      const std::string name = checked_utf8(source.path(id), source.where(id));
      line["path"] = name;
      line["bytes"] = fs::file_size(head.input / name);
    }
    if (!classes.empty()) line["label"] = source.label(id);
    file.write(line.dump() + "\n");
  }
  file.commit();
}

ListHead read_list_head(const fs::path& path) {
  ListReader lines(path);
  json object;
  return head_of(lines, object);
}

std::unique_ptr<Source> read_list(const fs::path& path, const fs::path& input) {
  return std::make_unique<ListedSource>(path, input);
}

}  // namespace penstock
