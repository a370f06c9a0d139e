// ListSource: a source whose samples are the rows of a table, with the paths of their pictures.
//
// Lives here: plug-ins that read lists of files with columns, and how columns become fields.
// Not here: lists as bytes (loader/import), and all other sources (loader/sources).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/spec.h"
#include "loader/import/table.h"
#include "loader/sources/source.h"

namespace penstock::detail {

/// The keys of all sources that read a list.
std::vector<std::string> list_keys(const std::vector<std::string>& more);
/// What they mean, for the help of a source.
std::string list_help();

/// A list and the folder that its paths are relative to.
struct ListFile {
  std::filesystem::path file, root;
  std::filesystem::path of_train;  // for split test: the list of train, whose classes it shares; "" for none
};

using OpenTable = std::function<std::unique_ptr<const Table>(const std::filesystem::path&)>;

/// The list in `input`, which is the list itself or a folder. In a folder it is file=NAME, or else
/// <split><ending>, or else for train and all the only file of that ending. Throws config_error, io_error.
ListFile find_list(const Spec& spec, const std::filesystem::path& input, const std::string& split,
                   const std::string& ending);

/// Every row with a picture of `split`: the whole table, or with the key split=COLUMN the rows that name the split. All
/// rows are checked at once: their paths, classes and the types of their columns.
std::unique_ptr<Source> make_list_source(const Spec& spec, ListFile list, const std::string& split,
                                         const OpenTable& open);

}  // namespace penstock::detail
