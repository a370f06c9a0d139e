// Field mismatch: whether fields of one name mean the same in two splits of a data set.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/files/field.h"

namespace penstock::detail {

/// `0 is "dog"; expected "cat"`: where two lists of names differ first; "" if they do not.
std::string first_other_name(const std::vector<std::string>& names, const std::vector<std::string>& expected);

/// What is wrong if a field of the split in `folder` differs in kind, shape or names from the one of its name in the
/// split in `other_folder`; "" if nothing is. Where one of two shapes has any number of entries, the other may have a
/// fixed one: lists of one split may happen to be equally long. Numbers may be whole in one of them.
std::string field_mismatch(const std::filesystem::path& folder, const std::vector<FieldType>& fields,
                           const std::filesystem::path& other_folder, const std::vector<FieldType>& others);

}  // namespace penstock::detail
