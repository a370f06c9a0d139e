// A plug-in by another project for all tools: the files memory:DIR/..., which are those of the folder DIR, held in
// memory. MEMORY_FAULT=short|broken is what shards do in tests: a read gives a byte less, or ends in the middle.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"
#include "core/plugin.h"
#include "loader/files/files.h"

PENSTOCK_PLUGIN();

namespace {

namespace fs = std::filesystem;
using penstock::Files, penstock::FilesKind, penstock::RandomAccessFile, penstock::Registered, penstock::Spec;

fs::path origin_of(const fs::path& path) { return path.string().substr(sizeof "memory:" - 1); }

class MemoryFile final : public RandomAccessFile {
 public:
  explicit MemoryFile(const fs::path& path) : RandomAccessFile(path) {
    std::ifstream file(origin_of(path), std::ios::binary);
    if (!file) throw penstock::io_error(path.string() + ": no such file; expected one to hold in memory");
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (const char* fault = std::getenv("MEMORY_FAULT"); fault && path.extension() == ".safetensors") fault_ = fault;
  }
  uint64_t size() const override { return bytes_.size(); }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    if (fault_ == "broken") throw penstock::io_error(path().string() + ": read in part; expected all of it");
    return bytes_.copy(reinterpret_cast<char*>(out.data()), out.size(), offset) - (fault_ == "short" ? 1 : 0);
  }

 private:
  std::string bytes_, fault_;
};

class MemoryFiles final : public Files {
 public:
  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    return std::make_unique<MemoryFile>(path);
  }
  bool exists(const fs::path& path) const override { return fs::exists(origin_of(path)); }
};

const Registered<FilesKind> kMemory{
    "memory", {}, "copies of local files in memory", [](const Spec&) { return std::make_unique<MemoryFiles>(); }};

}  // namespace
