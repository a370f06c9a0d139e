// Config flags: --config FILE, the flags of a run in a file.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace penstock {

/// The words of a command line, the program's name first, with the flags of --config in its place, as if they had been
/// typed: those that differ from what they would be otherwise, and are not typed under any of their names. Words with
/// no --config, or with several, are as they were. The file is TOML if its name ends in .toml, and JSON otherwise; keys
/// in `not_taken` are left out.
///
/// Errors: io_error for a file that cannot be read; config_error for one that holds no TOML or no JSON object, an
/// unknown key, or a value of another kind than the flag has, which names the file and the line or key, and for a run
/// that is resumed.
std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const std::set<std::string>& not_taken = {});

}  // namespace penstock
