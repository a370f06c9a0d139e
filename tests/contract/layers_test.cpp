// The contract of layers: who may include whom, read off the #include lines of the repository.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
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

std::vector<Include> read_includes() {
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

/// Read once: the regex takes a second for all files.
const std::vector<Include>& includes() {
  static const auto found = read_includes();
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

/// The text of a file of the repository; "" if it is not there.
std::string text_of(const fs::path& path) {
  std::ifstream file(fs::path(PENSTOCK_ROOT) / path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The file of a plug-in registers it; a header beside it with its name would be its own.
bool is_of_plug_in(const std::string& header) {
  return text_of(fs::path(header).replace_extension(".cpp")).find("const Registered") != std::string::npos;
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

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// A file without its extension: x.h and x.cpp are one unit. Parts of source files (-inl.h) belong to nobody.
std::string unit_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

/// The floors of the layers that have folders, the lowest one first. A folder includes folders of lower floors alone,
/// so that folders of one floor do not know each other. docs/ARCHITECTURE.md draws them.
const std::vector<std::vector<std::string>>& floors() {
  static const std::vector<std::vector<std::string>> floors{
      {"core"},
      {"augment/pixels"},
      {"augment/plan"},
      {"augment/draws", "augment/kernels"},
      {"augment/render"},
      {"augment"},
      {"augment/targets"},
      {"augment/transforms"},
      {"loader/files"},
      {"loader/jpeg/base", "loader/far"},
      {"loader/jpeg/entropy", "loader/jpeg/pixels", "loader/cache"},
      {"loader/jpeg/store"},
      {"loader/codecs"},
      {"loader/shards", "loader/import"},
      {"loader/order", "loader/sources", "loader/device"},
      {"loader/samplers"},
      {"loader/rows", "loader/sources/lists"},
      {"loader/batch"},
      {"loader/pack", "loader/bottleneck", "loader/columns"},
      {"loader/look", "loader/export"},
      {"train/tensor", "train/measure", "train/optimizers"},
      {"train/nn", "train/losses", "train/rendezvous", "train/sinks"},
      {"train/comm", "train/launch", "train/models"},
      {"train/options", "train/parallel/strategy"},
      {"train/parallel/sync", "train/parallel/pipeline", "train/parallel/replicas"},
      {"train/parallel/sharding", "train/parallel/schedules"},
      {"train/parallel/exact"},
      {"train/parallel/engine"},
      {"train/parallel/modes"},
      {"train/parallel/plan"},
      {"train/feed", "train/checkpoint", "train/verify"},
      {"train/loop", "train/resident"},
      {"train/run", "train/cuda"},
      {"tools"},
      {"tools/loadbench", "tools/shardprep", "tools/train/flags"},
      {"tools/train/plan", "tools/train/study", "tools/train/verify"},
      {"tools/train"}};
  return floors;
}

/// -1: the file lies in no folder of a floor, such as train/plugin.h.
int floor_of(const std::string& path) {
  for (size_t floor = 0; floor < floors().size(); ++floor)
    for (const auto& folder : floors()[floor])
      if (folder_of(path) == folder) return static_cast<int>(floor);
  return -1;
}

TEST(LayersContract, EveryFileIsOnAFloor) {
  size_t count = 0;
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || begins_with(file, "python/")) continue;
    ++count;
    EXPECT_TRUE(floor_of(file) >= 0 || file == "train/plugin.h") << file << " lies in a folder without a floor";
  }
  EXPECT_GT(count, 1000U);
}

TEST(LayersContract, AFolderIncludesFoldersOnLowerFloorsAlone) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (floor_of(file) < 0 || floor_of(target) < 0 || folder_of(file) == folder_of(target)) continue;
    EXPECT_LT(floor_of(target), floor_of(file)) << file << " includes " << target;
  }
}

TEST(LayersContract, OutsideOfParallelOnlyTheWordsOfAStepAndItsPredictionAreKnown) {
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || begins_with(file, "train/parallel/") || !begins_with(target, "train/parallel/")) continue;
    EXPECT_TRUE(folder_of(target) == "train/parallel/strategy" || folder_of(target) == "train/parallel/plan")
        << file << " includes " << target;
  }
}

TEST(LayersContract, NoTwoUnitsIncludeEachOther) {
  std::map<std::string, std::set<std::string>> known;  // by unit
  for (const auto& [file, target, is_quoted] : includes())
    if (is_quoted && layer_of(file) >= 0 && unit_of(target) != unit_of(file))
      known[unit_of(file)].insert(unit_of(target));
  EXPECT_GT(known.size(), 300U);
  for (const auto& [unit, targets] : known)
    for (const auto& target : targets) {
      if (unit.ends_with("-inl") || target.ends_with("-inl")) continue;
      EXPECT_FALSE(known.contains(target) && known.at(target).contains(unit)) << unit << " and " << target;
    }
}

/// Whether a source file may lack a header of its name: a plug-in, which registers itself; one that Highway compiles
/// for each instruction set; and one set of the functions of x_kernel.h or x_kernels.h, for one instruction set.
bool may_lack_header(const std::string& file) {
  const std::string text = text_of(file);
  for (const char* sign : {"const Registered", "const bool kRegistered", "HWY_TARGET_INCLUDE"})
    if (text.find(sign) != std::string::npos) return true;
  static const std::regex variant("(.*)_(avx512|bmi2|portable)\\.cpp");
  std::smatch match;
  return std::regex_match(file, match, variant) &&
         !(text_of(match.str(1) + "_kernel.h") + text_of(match.str(1) + "_kernels.h")).empty();
}

TEST(LayersContract, ASourceFileHasAHeaderOfItsName) {
  std::set<std::string> files;  // of the libraries: the parts of a program share one header, such as commands.h
  for (const auto& [file, target, is_quoted] : includes())
    if (file.ends_with(".cpp") && layer_of(file) >= 0 && layer_of(file) <= layer_of("train/")) files.insert(file);
  EXPECT_GT(files.size(), 200U);
  for (const auto& file : files)
    EXPECT_TRUE(may_lack_header(file) || !text_of(unit_of(file) + ".h").empty()) << file << " has no header";
}

std::set<std::string> headers_in(const std::string& text) {
  static const std::regex pattern("(core|augment|loader|train)/[a-z_/]+\\.h");
  std::set<std::string> headers;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    headers.insert(match->str());
  return headers;
}

/// The headers of loader/ in the table "Doors of the loader" of docs/ARCHITECTURE.md.
std::set<std::string> doors_of_the_loader() {
  const std::string text = text_of("docs/ARCHITECTURE.md");
  const size_t begin = text.find("### Doors of the loader"), end = text.find("\n## ", begin);
  return begin == std::string::npos ? std::set<std::string>{} : headers_in(text.substr(begin, end - begin));
}

TEST(LayersContract, TheInterfaceOfTheDocumentsIsTheOneThatIsInstalled) {
  const auto documented = headers_in(text_of("docs/API.md"));
  EXPECT_GT(documented.size(), 20U);
  EXPECT_EQ(documented, headers_in(text_of("cmake/install.cmake")));
}

TEST(LayersContract, OutsideOfTheLoaderItsInterfaceAndItsDoorsAreKnown) {
  const auto interface = headers_in(text_of("docs/API.md")), doors = doors_of_the_loader();
  std::set<std::string> used;
  for (const auto& [file, target, is_quoted] : includes()) {
    if (layer_of(file) < 0 || begins_with(file, "loader/") || !begins_with(target, "loader/")) continue;
    EXPECT_TRUE(interface.contains(target) || doors.contains(target)) << file << " includes " << target;
    if (!interface.contains(target)) used.insert(target);
  }
  EXPECT_EQ(doors, used);
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

TEST(ErrorContract, WhateverIsThrownIsAnErrorSoThatEveryProgramEndsWithItsLine) {
  static const std::regex thrown(R"(\bthrow ([A-Z]\w*)[({])"),
      declared(R"((?:class|struct) (\w+)[^;{]*: (?:public )?Error\b)");
  std::set<std::string> errors{"Error"}, found;
  for (const char* top : kLayers)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PENSTOCK_ROOT) / top)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      const std::string text = text_of(fs::relative(entry.path(), PENSTOCK_ROOT));
      for (std::sregex_iterator at(text.begin(), text.end(), thrown), end; at != end; ++at) found.insert((*at)[1]);
      for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) errors.insert((*at)[1]);
    }
  EXPECT_TRUE(found.contains("ObjectChanged"));
  for (const auto& name : found) EXPECT_TRUE(errors.contains(name)) << name << " is thrown and is no Error";
}

}  // namespace
}  // namespace penstock
