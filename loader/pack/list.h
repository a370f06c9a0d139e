// Lists: the samples of a source as a file of JSON lines, so that many packings see the same ones in the same order.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "loader/sources/source.h"

namespace penstock {

/// What a list says about where its samples come from.
struct ListHead {
  std::string source;           // the spec, as the manifest will have it
  std::string split = "train";  // train, test or all
  std::filesystem::path input;  // the folder that the source read; absolute
};

/// Writes a line of JSON about the list, and then one per sample, in order of their ids: path and bytes, where samples
/// have files of their own, and label. Errors: io_error, also for a path that is no UTF-8, which JSON cannot hold.
void write_list(const Source& source, const ListHead& head, const std::filesystem::path& path);

/// The first line of a list. Throws io_error, and corrupt_error naming file and line.
ListHead read_list_head(const std::filesystem::path& path);

/// The source that a list is of, with exactly its samples. Where each of them is a file, no folder is walked through
/// and no file is looked at before it is read. `input`: in place of the folder that the list names; may be empty.
///
/// Errors: io_error and corrupt_error naming file and line; read() throws io_error for a file that has another size
/// than in the list. Memory: about 100 bytes per sample.
std::unique_ptr<Source> read_list(const std::filesystem::path& path, const std::filesystem::path& input);

}  // namespace penstock
