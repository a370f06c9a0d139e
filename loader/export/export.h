// export_split(): a packed split as a data set that other programs read.
//
// Lives here: packed data sets as other programs read them.
// Not here: files as they were packed (loader/pack/unpack.h), and formats as bytes (loader/import).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "loader/pack/unpack.h"
#include "loader/shards/problems.h"

namespace penstock {

enum class ExportFormat : uint8_t {
  /// OUT/<split>/<class>/<file> as image-folder reads it, where the file has the path of its source or else its id; and
  /// OUT/<split>/metadata.jsonl as metadata-folder and Hugging Face read it: file_name, label (the class's name) and
  /// the fields. Masks, pictures and bytes are files in the hidden folder .fields/<name>, with a key <name>_file_name.
  kImageFolder,
  /// OUT/<split>-<shard>.tar for WebDataset: <id>.jpg or .png, .cls (the label), and for each field <name>.txt, .npy,
  /// .png or .bin; OUT/classes.txt, a class's name per line. The first member, __penstock__, has the names of the
  /// classes and the kinds of the fields, by which source webdataset makes the same ones again. Archives are ustar with
  /// time 0: equal data sets give equal bytes.
  kWebDataset,
};

/// Writes every sample of the split in `split_folder` into `output`. Files of pictures are those that unpack() writes.
/// Progress and what is left out are as for unpack(). Errors: io_error, also for a file that exists, but for
/// classes.txt, which the splits share; config_error for a field whose key metadata.jsonl has already, and for a number
/// that is infinite, which JSON cannot hold (a NaN is null). A kill may leave a part of a file.
Problems export_split(const std::filesystem::path& split_folder, const std::filesystem::path& output,
                      ExportFormat format, int jobs = 0,
                      const std::function<void(const UnpackProgress&)>& on_progress = {});

}  // namespace penstock
