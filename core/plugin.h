// Plug-in files: shared libraries with a user's own transforms, sources, models or strategies, for `--plugin FILE.so`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/version.h"

namespace penstock {

namespace detail {

/// An ELF note: three numbers, a name and a text, each padded to 4 bytes.
template <size_t kTextBytes>
struct PluginNote {
  uint32_t name_bytes, text_bytes, type;
  char name[12];
  char text[(kTextBytes + 3) / 4 * 4];
};

constexpr uint32_t kPluginNoteType = 1;

}  // namespace detail

#ifdef _GLIBCXX_USE_CXX11_ABI
#if _GLIBCXX_USE_CXX11_ABI
#define PENSTOCK_CXX_LIBRARY "libstdc++"
#else
#define PENSTOCK_CXX_LIBRARY "libstdc++ with its old strings"
#endif
#else
#define PENSTOCK_CXX_LIBRARY "another C++ library"
#endif

/// The memory layout of the classes in these headers depends on this.
#define PENSTOCK_STAMP "penstock " PENSTOCK_VERSION ", " PENSTOCK_CXX_LIBRARY

#define PENSTOCK_PLUGIN_NOTE(text)                                                                                 \
  [[gnu::used, gnu::section(".note.penstock")]] alignas(4) static const penstock::detail::PluginNote<sizeof(text)> \
      kPenstockPluginNote {                                                                                        \
    9, sizeof(text), penstock::detail::kPluginNoteType, "penstock", text                                           \
  }

/// Write `PENSTOCK_PLUGIN();` once, in one file of a plug-in. It makes an ELF note that says what the plug-in was
/// compiled against; load_plugin() reads the note before any code of the plug-in runs. Plug-ins with models or
/// strategies use PENSTOCK_TRAIN_PLUGIN() of train/plugin.h instead.
#define PENSTOCK_PLUGIN() PENSTOCK_PLUGIN_NOTE(PENSTOCK_STAMP)

struct Plugin {
  std::filesystem::path file;
  std::vector<std::string> registered;  ///< "transform invert", in the order of registration.
};

/// Loads a plug-in, whose Registered objects add themselves to the registries. It stays loaded until the process ends.
/// `libtorch` is the version of the LibTorch that the caller uses, or empty.
///
/// Errors: io_error for a file that cannot be read. config_error for a file that is not a shared library for this
/// machine, is not a plug-in, is of another version, is loaded already, lacks something, registers nothing, or
/// registers a name that is taken. Each message names the file.
/// Thread-safety: none; call it at the start of a program, before anything else reads the registries.
Plugin load_plugin(const std::filesystem::path& file, const std::string& libtorch = "");

/// All loaded plug-ins, in the order in which they were loaded.
const std::vector<Plugin>& loaded_plugins();

}  // namespace penstock
