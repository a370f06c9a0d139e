// A tar archive, an array in NumPy's format or a compressed file from an untrusted source: the first byte says which.
#include "loader/codecs/npy.h"
#include "loader/import/compressed.h"
#include "loader/import/tar.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const std::span<const uint8_t> file(data + 1, size - 1);
  try {
    if (data[0] == 'n') {
      const auto array = detail::parse_npy(file);
      uint64_t count = 1;
      for (const int64_t side : array.shape) count *= static_cast<uint64_t>(side);
      if (array.data.size() != count * element_bytes(array.dtype)) std::abort();
      return 0;
    }
    if (data[0] == 'c') {
      uint64_t count = 0;
      detail::unpack_stream(file, "x.tar.gz", [&](auto bytes) { count += bytes.size(); });
      if (count > (uint64_t{1} << 20) + 100 * file.size()) std::abort();
      return 0;
    }
    detail::for_each_member(file, "x.tar", [&](const detail::TarMember& member) {
      if (member.offset > file.size() || member.size > file.size() - member.offset) std::abort();
      if (member.path.empty() || member.path[0] == '/') std::abort();
    });
  } catch (const Error&) {
  }
  return 0;
}
