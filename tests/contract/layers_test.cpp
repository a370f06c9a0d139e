// The contract of layers: who may include whom, read off the #include lines of the repository.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;    // from the repository root
  std::string target;  // as written
  bool is_quoted;
};

/// Nothing includes tools or python, of which neither includes the other.
constexpr std::array kLayers{"core", "augment", "loader", "train", "tools", "python"};

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

std::vector<Include> includes() {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> found;
  for (const char* top : {"core", "augment", "loader", "train", "tools", "python", "tests", "bench"}) {
    const fs::path root = fs::path(PENSTOCK_ROOT);
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      std::ifstream file(entry.path());
      std::smatch match;
      for (std::string line; std::getline(file, line);) {
        if (std::regex_search(line, match, pattern))
          found.push_back({fs::relative(entry.path(), root).string(), match[2], match[1] == "\""});
      }
    }
  }
  return found;
}

int layer_of(const std::string& path) {
  for (size_t layer = 0; layer < kLayers.size(); ++layer)
    if (begins_with(path, std::string(kLayers[layer]) + "/")) return static_cast<int>(layer);
  return -1;
}

TEST(LayersContract, IncludesAreFoundAtAll) { EXPECT_GT(includes().size(), 100U); }

TEST(LayersContract, AFolderIncludesOnlyItselfAndTheFoldersBelowIt) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || layer_of(target) < 0) continue;
    EXPECT_LE(layer_of(target), layer_of(file)) << file << " includes " << target;
  }
}

TEST(LayersContract, ThePythonModuleIncludesNothingAboveTheLoader) {
  bool is_scanned = false;
  for (const auto& [file, target, is_quoted] : includes()) {
    if (!begins_with(file, "python/")) continue;
    is_scanned = true;
    EXPECT_FALSE(begins_with(target, "train/") || begins_with(target, "tools/")) << file << " includes " << target;
  }
  EXPECT_TRUE(is_scanned);
}

TEST(LayersContract, QuotedIncludesNameAFileFromTheRepositoryRoot) {
  for (const auto& include : includes()) {
    if (!include.is_quoted || begins_with(include.target, "hwy/")) continue;  // Highway must be quoted
    EXPECT_TRUE(fs::exists(fs::path(PENSTOCK_ROOT) / include.target)) << include.file << " includes " << include.target;
  }
}

/// The file of a plug-in registers it; a header beside it with its name would be its own.
bool is_of_plug_in(const std::string& header) {
  std::ifstream file(fs::path(PENSTOCK_ROOT) / fs::path(header).replace_extension(".cpp"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.find("const Registered") != std::string::npos;
}

TEST(LayersContract, PlugInsAreKnownByTheirRegistration) {
  for (const char* of_a_plug_in : {"loader/codecs/png.h", "augment/transforms/flip.h", "loader/sources/mnist.h"})
    EXPECT_TRUE(is_of_plug_in(of_a_plug_in)) << of_a_plug_in;
  for (const char* of_none : {"loader/codecs/codec.h", "core/registry.h", "core/plugin.h"})
    EXPECT_FALSE(is_of_plug_in(of_none)) << of_none;
}

TEST(LayersContract, NobodyIncludesAPlugIn) {
  for (const auto& [file, target, is_quoted] : includes()) {
    EXPECT_FALSE(target.ends_with(".cpp")) << file << " includes " << target;
    if (fs::path(target).replace_extension(".cpp") == file) continue;  // its own header
    EXPECT_FALSE(is_quoted && is_of_plug_in(target)) << file << " includes " << target;
  }
}

TEST(LayersContract, LibTorchStaysUnderTrain) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (!begins_with(target, "torch/") && !begins_with(target, "ATen/") && !begins_with(target, "c10/")) continue;
    const bool is_allowed = begins_with(file, "train/") || begins_with(file, "tools/train/") ||
                            begins_with(file, "tests/consumer/") || begins_with(file, "tests/train/") ||
                            begins_with(file, "tests/cuda/") || begins_with(file, "bench/train/") ||
                            begins_with(file, "bench/peers/");
    EXPECT_TRUE(is_allowed) << file << " includes " << target;
  }
}

TEST(LayersContract, PartsOfSourceFilesStayOutOfHeaders) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (!is_quoted || !target.ends_with("-inl.h")) continue;
    EXPECT_TRUE(file.ends_with(".cpp") || file.ends_with("-inl.h")) << file << " includes " << target;
  }
}

TEST(LayersContract, ADetailFolderIsForItsOwnLayer) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || layer_of(target) < 0 || target.find("/detail/") == std::string::npos) continue;
    EXPECT_EQ(layer_of(target), layer_of(file)) << file << " includes " << target;
  }
}

/// The loader's folders and what their files may include of the loader. Its top may include all of them.
TEST(LayersContract, TheLoadersFoldersIncludeWhatLiesBelowThem) {
  const std::map<std::string, std::vector<std::string>> allowed{
      {"loader/jpeg/", {"loader/jpeg/", "loader/detail/", "loader/shards/shard.h"}},
      {"loader/device/",
       {"loader/device/", "loader/device/device_renderer.h", "loader/jpeg/", "loader/codecs/codec.h", "loader/detail/",
        "loader/shards/shard.h"}},
      {"loader/codecs/", {"loader/codecs/", "loader/jpeg/", "loader/detail/", "loader/shards/shard.h"}},
      {"loader/sources/",
       {"loader/sources/", "loader/codecs/codec.h", "loader/detail/", "loader/shards/shard.h",
        "loader/files/read_from.h"}}};
  for (const auto& [file, target, is_quoted] : includes()) {
    const std::string folder = file.substr(0, file.rfind('/') + 1);
    if (!allowed.contains(folder) || !begins_with(target, "loader/")) continue;
    const auto& targets = allowed.at(folder);
    EXPECT_TRUE(
        std::any_of(targets.begin(), targets.end(), [&, t = target](const auto& a) { return begins_with(t, a); }))
        << file << " includes " << target;
  }
}

TEST(LayersContract, OutsideOfTheLoaderItsFoldersHaveAHeaderEach) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || begins_with(file, "loader/") || !begins_with(target, "loader/")) continue;
    const bool is_of_top = target.find('/') == target.rfind('/');
    EXPECT_TRUE(is_of_top || target == "loader/codecs/codec.h" || target == "loader/sources/source.h")
        << file << " includes " << target;
  }
}

TEST(LayersContract, ThirdPartyTypesStayOutOfHeaders) {
  // A header may name the types of nlohmann-json (json_fwd.hpp): those who include it do not pay for that.
  const std::regex foreign(
      R"(^(tbb/|oneapi/|jpeglib|turbojpeg|opencv2/|spng|png\.h|cuda|nccl|nlohmann/(?!json_fwd\.hpp)))");
  for (const auto& [file, target, is_quoted] : includes()) {
    // The tests' own headers are no interface, and an -inl.h is a part of the .cpp files that include it.
    if (!file.ends_with(".h") || file.ends_with("-inl.h") || layer_of(file) < 0) continue;
    EXPECT_FALSE(std::regex_search(target, foreign)) << file << " includes " << target;
  }
}

}  // namespace
}  // namespace penstock
