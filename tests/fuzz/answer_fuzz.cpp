// What a service answers: header lines, and the XML of S3 and STS.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "loader/far/answer.h"
#include "loader/far/credential_sources.h"
#include "loader/far/retry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::detail;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> headers;
  for (size_t begin = 0; begin < size;) {
    const size_t end = std::min(text.find('\n', begin), size - 1) + 1;
    add_header_line(headers, std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  if (headers.size() > 100) std::abort();
  for (const auto& [name, value] : headers) {
    if (const auto range = parse_content_range(value); range && value.find('/') == std::string::npos) std::abort();
    if (const auto wait_s = parse_retry_after(value, 1'795'593'600); wait_s && !(*wait_s >= 0)) std::abort();
    const double waited_s = back_off_s(1, 0.5, parse_retry_after(value, 0));
    if (!(waited_s >= 0 && waited_s <= 60)) std::abort();
    parse_http_date(value);
    parse_iso_time(value);
  }
  if (error_code_of(text).size() > 64) std::abort();
  for (const char* tag : {"UploadId", "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"})
    if (xml_value(text, tag).size() > size) std::abort();
  ini_value(text, "profile far", "credential_process");
  return 0;
}
