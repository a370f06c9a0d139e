// A manifest from somebody.
#include <filesystem>
#include <fstream>

#include "loader/dataset.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const std::filesystem::path folder = [] {
    const auto path = std::filesystem::temp_directory_path() / ("penstock-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  std::ofstream(folder / "manifest.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    read_manifest(folder);
  } catch (const Error&) {
  }
  return 0;
}
