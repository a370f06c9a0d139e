// COCO's annotations from an untrusted source: every field of every picture is one that shards can have.
#include "loader/sources/coco_annotations.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const fuzzing::MemoryFile file({data, size});
  try {
    const detail::CocoAnnotations annotations({file.path()}, {});
    const auto types = annotations.fields();
    for (uint64_t i = 0; i < annotations.pictures().size(); ++i) {
      const auto values = annotations.values(i);
      if (values.size() != types.size()) std::abort();
      for (size_t field = 0; field < types.size(); ++field)
        if (types[field].is_variable() && values[field].size() % types[field].entry_bytes() != 0) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
