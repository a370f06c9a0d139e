// What the storage tests share: a temporary folder, files as bytes, the text of an error, the golden pictures, and
// small data sets.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "loader/pack/pack.h"
#include "loader/shards/shard.h"

namespace penstock::testing_data {

using Bytes = std::vector<uint8_t>;

/// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes a file, and creates the folders of its path. An existing file is removed first, because ext4 waits for the
/// disk when a file is truncated and written again.
template <class Container>
void write_bytes(const std::filesystem::path& path, const Container& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

/// The names in a folder, sorted, hidden ones too.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// "<exit code> <message>" of the Error that `body` throws; "" when it throws nothing.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "";
}

inline Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// A picture of tests/golden/pictures.json: its encoded bytes and the pixels that Pillow gives.
struct GoldenPicture {
  std::string name;
  Bytes file;
  Extent extent;
  Bytes pixels;
};

inline std::vector<GoldenPicture> golden_pictures() {
  std::ifstream file(std::string(PENSTOCK_ROOT) + "/tests/golden/pictures.json");
  std::vector<GoldenPicture> pictures;
  for (const auto& entry : nlohmann::json::parse(file)) {
    pictures.push_back({entry["name"],
                        from_hex(entry["file"]),
                        {entry["height"], entry["width"], entry["channels"]},
                        from_hex(entry["pixels"])});
  }
  return pictures;
}

inline const GoldenPicture& golden_picture(const std::string& name) {
  static const auto pictures = golden_pictures();
  for (const auto& picture : pictures)
    if (picture.name == name) return picture;
  throw std::runtime_error("no golden picture " + name);
}

inline PackOptions digits(const std::filesystem::path& output, int count, int shards) {
  PackOptions options;
  options.source = "digits(size=8,count=" + std::to_string(count) + ")";
  options.output = output;
  options.shard_count = shards;
  return options;
}

/// Writes a folder with pictures of all kinds, in two classes.
inline void write_pictures(const std::filesystem::path& folder) {
  size_t number = 0;
  for (const auto& golden : golden_pictures()) {
    ++number;
    write_bytes(folder / (number % 3 == 0 ? "a" : "b") / ("picture " + std::to_string(100 + number)), golden.file);
  }
}

inline PackOptions pictures(const TemporaryFolder& folder) {
  PackOptions options;
  options.source = "image-folder";
  options.input = folder / "in";
  options.output = folder / "out";
  options.shard_count = 2;
  options.storage.sixteen_bit = SixteenBit::kKeep;
  return options;
}

/// The bytes of all files below a folder, by path.
inline std::map<std::string, Bytes> files_below(const std::filesystem::path& folder) {
  std::map<std::string, Bytes> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = read_bytes(entry.path());
  return files;
}

}  // namespace penstock::testing_data
