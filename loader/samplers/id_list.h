// Lists of ids, with or without a weight each, as files.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace penstock {

/// The ids in a file: one per line, as a number or as a JSON object with "id", as quarantine.jsonl has them. Lines of
/// JSON that name another split than `split` are left out, and so are empty lines. Errors: io_error for a file that
/// cannot be read, config_error `<file>, line 3: ...` for a line that is neither.
std::vector<uint64_t> read_ids(const std::string& path, const std::string& split);

/// Id and weight per line, with a comma or spaces between them. Throws also for an id that occurs twice.
std::unordered_map<uint64_t, double> read_id_weights(const std::string& path);

}  // namespace penstock
