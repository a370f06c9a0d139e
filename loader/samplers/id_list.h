// Lists of ids, with or without a weight each, as files.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace penstock {

struct ListedId {
  uint64_t id;
  std::string
      data;  // the data set of joined ones whose sample it is, as Dataset::Part::name() gives it; "": any of them
};

/// The ids in a file: one per line, as a number or as a JSON object with "id", as quarantine.jsonl has them, with
/// "data" where several data sets were joined. Lines of JSON that name another split than `split` are left out, and so
/// are empty lines. Errors: io_error for a file that
/// cannot be read, config_error `<file>, line 3: ...` for a line that is neither.
std::vector<ListedId> read_ids(const std::string& path, const std::string& split);

/// Id and weight per line, with a comma or spaces between them. Throws also for an id that occurs twice.
std::unordered_map<uint64_t, double> read_id_weights(const std::string& path);

}  // namespace penstock
