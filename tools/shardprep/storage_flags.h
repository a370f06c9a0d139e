// The flags of shardprep that say how pictures are stored.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "loader/pack/pack.h"

namespace penstock {

struct StorageFlags {
  StorageOptions storage;
  std::string encode = "auto", transcode = "on", sixteen_bit = "refuse", pixels = "u8";
  bool ignores_exif = false;

  /// What the flags mean. Throws config_error.
  StorageOptions options() const;
};

/// `flags` must live until the command line is parsed.
void add_storage_flags(CLI::App& command, StorageFlags& flags);

}  // namespace penstock
