// A tar of WebDataset from an untrusted source, whose headers get the checksums that they need, because no input would
// guess them. Every sample that can be read has the fields that the source says.
#include <algorithm>
#include <cstdio>

#include "loader/import/picture_formats.h"
#include "loader/import/tar.h"
#include "loader/sources/source.h"
#include "tests/fuzz/fuzz_pictures.h"
#include "tests/fuzz/read_source.h"

namespace penstock {
namespace {

void fix_header_checksums(std::span<uint8_t> tar) {
  constexpr size_t kBlock = 512, kSum = 148, kSize = 124;
  for (size_t at = 0; at + kBlock <= tar.size();) {
    const auto header = tar.subspan(at, kBlock);
    if (std::all_of(header.begin(), header.end(), [](uint8_t byte) { return byte == 0; })) return;
    std::fill_n(header.begin() + kSum, 8, ' ');
    unsigned sum = 0;
    for (const uint8_t byte : header) sum += byte;
    std::snprintf(reinterpret_cast<char*>(&header[kSum]), 8, "%06o", sum);
    const size_t size = std::strtoul(reinterpret_cast<const char*>(&header[kSize]), nullptr, 8);
    if (size > tar.size()) return;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
}

/// Whether a member is a picture of a foreign format, or a PNG of 2^24 rows or columns, which would only cost time: the
/// target foreign_picture has them.
bool has_slow_pictures(std::span<const uint8_t> tar) {
  bool is_slow = false;
  detail::for_each_member(tar, "x.tar", [&](const detail::TarMember& member) {
    const auto file = tar.subspan(member.offset, member.size);
    const bool is_large_png = file.size() > 24 && file[0] == 0x89 && (file[16] != 0 || file[20] != 0);
    is_slow |= is_large_png || detail::foreign_format_of(file) != nullptr;
  });
  return is_slow;
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  std::vector<uint8_t> tar(data, data + size);
  fix_header_checksums(tar);
  try {
    if (has_slow_pictures(tar)) return 0;
    const fuzzing::MemoryFile file(tar);
    fuzzing::read_source(*SourceRegistry::make(parse_spec("source", "webdataset"), file.path(), "train"));
  } catch (const Error&) {
  }
  return 0;
}
