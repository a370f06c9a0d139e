// Excerpts: some samples of a source, or the files of a packed split, as a source of their own.
#pragma once

#include <filesystem>
#include <memory>

#include "loader/sources/source.h"

namespace penstock {

/// `count` samples of `source` in even distances, which have new ids from 0 on. Fields are left out.
std::unique_ptr<Source> excerpt_of(std::shared_ptr<const Source> source, uint64_t count);

/// The files of a packed split, as unpack() gives them back, without the values of fields: a source for excerpt_of().
std::unique_ptr<Source> packed_source(const std::filesystem::path& split_folder);

}  // namespace penstock
