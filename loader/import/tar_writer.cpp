// TarWriter: IEEE Std 1003.1, pax, "ustar Interchange Format".
#include "loader/import/tar_writer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr size_t kTarBlock = 512;

}  // namespace

void TarWriter::add(const std::string& path, std::span<const uint8_t> bytes) {
  constexpr size_t kMaxPath = 100;
  if (path.size() > kMaxPath || bytes.size() >> 33 != 0)
    throw bug_error(
        concat("tar member ", in_quotes(path), " of ", bytes.size(), " bytes; expected a short path and 8 GiB"));
  std::array<uint8_t, kTarBlock> header{};
  const auto put = [&](size_t at, std::string_view text) { std::copy(text.begin(), text.end(), header.begin() + at); };
  const auto octal = [](uint64_t number, int digits) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "%0*llo", digits, static_cast<unsigned long long>(number));
    return std::string(text.data());
  };
  put(0, path);
  put(100, octal(0644, 7));
  put(108, octal(0, 7));  // user
  put(116, octal(0, 7));  // group
  put(124, octal(bytes.size(), 11));
  put(136, octal(0, 11));  // time
  put(148, "        ");    // the checksum counts as spaces
  put(156, "0");           // a plain file
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  uint64_t sum = 0;
  for (const uint8_t byte : header) sum += byte;
  put(148, octal(sum, 6));
  header[154] = 0;
  file_.write(header);
  file_.write(bytes);
  constexpr std::array<uint8_t, kTarBlock> kZeros{};
  file_.write(std::span(kZeros).first((kTarBlock - bytes.size() % kTarBlock) % kTarBlock));
}

void TarWriter::finish() {
  constexpr std::array<uint8_t, 2 * kTarBlock> kEnd{};
  file_.write(kEnd);
  file_.commit_as_new();
}

}  // namespace penstock::detail
