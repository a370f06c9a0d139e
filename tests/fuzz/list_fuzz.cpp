// A list from an untrusted source: the first byte says whether it is CSV, JSON lines, XML or a JSON file of records.
#include <nlohmann/json.hpp>

#include "loader/import/json_records.h"
#include "loader/import/table.h"
#include "loader/import/xml.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  try {
    if (data[0] == 'x') {
      detail::parse_xml(bytes);
    } else if (data[0] == 'r') {
      detail::for_each_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "x.json",
                              {"images", "annotations"}, [](const std::string&, const nlohmann::json& record) {
                                if (!record.is_object()) std::abort();
                              });
    } else {
      const fuzzing::MemoryFile file(bytes);
      const auto table = data[0] == 'j' ? detail::open_json_lines(file.path()) : detail::open_csv(file.path(), ',');
      for (uint64_t i = 0; i < table->size(); ++i)
        if (!table->row(i).is_object()) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
