// Saved states: files of a state that is in memory as a whole, for tests.
#pragma once

#include <filesystem>

#include "train/checkpoint/checkpoint.h"

namespace penstock {

/// `what`: a CheckpointInfo, or the arch for a file of the model alone.
template <class What>
void save_state(const std::filesystem::path& path, const StateDict& state, const What& what) {
  StateFile file(path, {state.begin(), state.end()}, what);
  for (const auto& [name, tensor] : state) file.put(name, tensor);
  file.commit();
}

inline void save_checkpoint(const std::filesystem::path& path, const CheckpointInfo& info, const StateDict& state) {
  save_state(path, state, info);
}
inline void save_model(const std::filesystem::path& path, const StateDict& state, const std::string& arch) {
  save_state(path, state, arch);
}

}  // namespace penstock
