// Plug-in files: shared libraries with transforms, sources, models or strategies of one's own, for `--plugin FILE.so`.
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

/// What the classes of these headers look like in memory depends on this.
#define PENSTOCK_STAMP "penstock " PENSTOCK_VERSION ", " PENSTOCK_CXX_LIBRARY

#define PENSTOCK_PLUGIN_NOTE(text)                                                                                 \
  [[gnu::used, gnu::section(".note.penstock")]] alignas(4) static const penstock::detail::PluginNote<sizeof(text)> \
      kPenstockPluginNote {                                                                                        \
    9, sizeof(text), penstock::detail::kPluginNoteType, "penstock", text                                           \
  }

/// `PENSTOCK_PLUGIN();` once, in one file of a plug-in. It says what the plug-in was compiled against, as an ELF note,
/// which load_plugin() reads before any code of the plug-in runs. Plug-ins of models and strategies take
/// PENSTOCK_TRAIN_PLUGIN() of train/plugin.h.
#define PENSTOCK_PLUGIN() PENSTOCK_PLUGIN_NOTE(PENSTOCK_STAMP)

struct Plugin {
  std::filesystem::path file;
  std::vector<std::string> registered;  ///< "transform invert", in the order of registration.
};

/// Loads a plug-in, whose Registered objects add themselves to the registries. It stays loaded until the process ends.
/// `libtorch` is the version of the LibTorch that the caller has, empty for none.
///
/// Errors: io_error for a file that cannot be read; config_error for one that is no shared library of this machine, no
/// plug-in, of another version, loaded already, lacks something, registers nothing, or a name that is taken. Each names
/// the file. Thread-safety: for the start of a program, before anything else reads the registries.
const Plugin& load_plugin(const std::filesystem::path& file, const std::string& libtorch = "");

/// In the order in which they were loaded.
const std::vector<Plugin>& loaded_plugins();

}  // namespace penstock
