// Plug-in files: reads the note that says what a plug-in was compiled against, and loads the plug-in.
#include "core/plugin.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "core/error.h"
#include "core/registry.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxNoteBytes = 1 << 20;
constexpr const char* kNoteName = "penstock";

std::string where(const fs::path& file) { return concat("--plugin ", file.string()); }

Error no_library(const fs::path& file) {
  return config_error(concat(where(file), ": no shared library of this machine, or one that is cut short; expected a ",
                             "plug-in that was compiled against Penstock's headers"));
}

/// A file of which parts are read. Only regular files are accepted, because others may have no end.
class ElfFile {
 public:
  explicit ElfFile(const fs::path& path) : path_(path) {
    std::error_code failure;
    const bool is_file = fs::is_regular_file(path, failure);
    if (!failure && is_file) byte_count_ = fs::file_size(path, failure);
    if (!failure && is_file) stream_.open(path, std::ios::binary);  // opening a pipe would wait for a writer
    if (failure || !is_file || !stream_) {
      const std::string fact = failure ? failure.message() : is_file ? "cannot be read" : "no regular file";
      throw io_error(concat(where(path), ": ", fact, "; expected a shared library"));
    }
  }

  bool holds(uint64_t offset, uint64_t byte_count) const {
    return offset <= byte_count_ && byte_count <= byte_count_ - offset;
  }

  std::string text(uint64_t offset, uint64_t byte_count) {
    std::string bytes(byte_count, '\0');
    stream_.seekg(static_cast<std::streamoff>(offset));
    if (!holds(offset, byte_count) || !stream_.read(bytes.data(), static_cast<std::streamsize>(byte_count)))
      throw no_library(path_);
    return bytes;
  }

  template <class Part>
  Part part(uint64_t offset) {
    Part part;
    std::memcpy(&part, text(offset, sizeof(Part)).data(), sizeof(Part));
    return part;
  }

 private:
  fs::path path_;
  std::ifstream stream_;
  uint64_t byte_count_ = 0;
};

/// The segments of a shared library that this process could load.
std::vector<Elf64_Phdr> segments_of(ElfFile& elf, const fs::path& file) {
  const auto header = elf.part<Elf64_Ehdr>(0);
  const auto own = [] {  // the header of this program: the file must be for the same machine
    ElfFile program("/proc/self/exe");
    return program.part<Elf64_Ehdr>(0);
  }();
  if (std::memcmp(header.e_ident, own.e_ident, EI_VERSION) != 0 || header.e_machine != own.e_machine ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) ||
      !elf.holds(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize))  // linkers write this table last
    throw no_library(file);
  std::vector<Elf64_Phdr> segments;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = elf.part<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!elf.holds(segment.p_offset, segment.p_filesz)) throw no_library(file);
    segments.push_back(segment);
  }
  return segments;
}

/// The text of Penstock's note among `notes`.
std::optional<std::string> stamp_among(const std::string& notes) {
  const auto padded = [](uint64_t count) { return (count + 3) / 4 * 4; };
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const uint64_t name = at + sizeof(note), text = name + padded(note.n_namesz);
    at = text + padded(note.n_descsz);
    if (at > notes.size()) return std::nullopt;
    const bool is_ours = note.n_type == detail::kPluginNoteType && note.n_namesz == std::strlen(kNoteName) + 1 &&
                         notes.compare(name, note.n_namesz - 1, kNoteName) == 0;
    if (is_ours && note.n_descsz > 0) return notes.substr(text, note.n_descsz - 1);
  }
  return std::nullopt;
}

std::string stamp_of(const fs::path& file) {
  ElfFile elf(file);
  for (const auto& segment : segments_of(elf, file)) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    if (const auto stamp = stamp_among(elf.text(segment.p_offset, segment.p_filesz))) return *stamp;
  }
  throw config_error(concat(where(file), ": a shared library, but no plug-in of Penstock; expected PENSTOCK_PLUGIN() ",
                            "of core/plugin.h in one of its files"));
}

/// A plug-in without LibTorch fits a caller that uses LibTorch, but not the other way round.
void check_stamp(const fs::path& file, const std::string& libtorch) {
  const std::string stamp = stamp_of(file), own = PENSTOCK_STAMP;
  const std::string with_libtorch = concat(own, ", LibTorch ", libtorch);
  if (stamp == own || (!libtorch.empty() && stamp == with_libtorch)) return;
  if (libtorch.empty() && stamp.starts_with(own + ", LibTorch "))
    throw config_error(concat(where(file), ": a plug-in for LibTorch; expected one of transforms or sources here, ",
                              "models and strategies are for train"));
  throw config_error(concat(where(file), ": compiled against ", stamp, "; expected ",
                            libtorch.empty() ? own : with_libtorch, ", compile it again"));
}

void check_is_new(const fs::path& file) {
  std::error_code ignored;  // stamp_of() refuses a file that cannot be examined
  for (const auto& plugin : loaded_plugins())
    if (fs::equivalent(plugin.file, file, ignored))
      throw config_error(
          concat(where(file), ": is loaded already, as ", plugin.file.string(), "; expected every plug-in once"));
}

std::vector<Plugin>& plugins() {
  static std::vector<Plugin> plugins;
  return plugins;
}

}  // namespace

Plugin load_plugin(const fs::path& file, const std::string& libtorch) {
  if (file.empty()) throw config_error("--plugin is \"\"; expected a shared library, or no --plugin");
  check_is_new(file);
  check_stamp(file, libtorch);
  detail::Registrations registrations;
  detail::observe_registrations(&registrations);
  // The path must be absolute, because a bare name would be searched in the library folders of the system. The library
  // is never closed, because the registries refer to its code.
  const void* const library = dlopen(fs::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  detail::observe_registrations(nullptr);
  if (library == nullptr)
    throw config_error(concat(where(file), ": cannot be loaded: ", dlerror(),
                              "; expected a library that is linked against what it uses"));
  if (!registrations.taken.empty())
    throw config_error(concat(where(file), ": ", registrations.taken.front(),
                              " is there already; expected a name or encoding of its own"));
  if (registrations.added.empty())
    throw config_error(concat(where(file), ": registers nothing; expected a Registered object"));
  return plugins().emplace_back(Plugin{file, registrations.added});
}

const std::vector<Plugin>& loaded_plugins() { return plugins(); }

}  // namespace penstock
