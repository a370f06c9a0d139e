// What services answer, as text that is not trusted: header lines, ranges, and the XML of S3 and STS.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Adds `Name: value` under its lower-case name. A status line empties `headers`, because those before it are of the
/// answer before a redirect. Google's storage sends x-goog-hash once for each sum: these are joined by commas. Other
/// lines, and those after the hundredth name, are left out.
void add_header_line(std::map<std::string, std::string>& headers, std::string_view line);

/// `bytes 100-199/1000`, or `bytes 100-199/*` from a server that does not say how many there are.
struct ContentRange {
  uint64_t begin = 0;
  std::optional<uint64_t> total{};
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// The text inside of the first <tag>, with its entities resolved; "" if there is none.
std::string xml_value(std::string_view document, const std::string& tag);

/// The text inside of the first <Code> of an error document of S3; "" if it is no word.
std::string error_code_of(std::string_view document);

/// The region that a bucket is in by an answer about another one: of the header x-amz-bucket-region, or where there is
/// none of <Region> in the error document, as MinIO says it. "" if it is no word.
std::string region_text(const std::string& header, std::string_view document);

/// Seconds since 1970 of `2026-11-25T08:00:00Z`, also with fractions of a second; 0 if it is no such time.
int64_t parse_iso_time(const std::string& text);

}  // namespace penstock::detail
