// A list of samples, and a part.json, from an untrusted source.
#include "loader/pack/list.h"
#include "loader/pack/part.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const fuzzing::MemoryFile file({data, size});
  try {
    const auto source = read_list(file.path(), "/nonexistent");
    for (uint64_t i = 0; i < source->size(); ++i) source->label(i);
  } catch (const Error&) {
  }
  try {
    detail::read_part(file.path());
  } catch (const Error&) {
  }
  return 0;
}
