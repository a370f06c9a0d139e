// XmlElement: a small XML file as a tree, parsed by expat without trust.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::detail {

struct XmlElement {
  std::string name;
  std::string text;  // all text directly in it, without spaces at both ends
  std::vector<XmlElement> children;

  /// The first child of that name; null: none.
  const XmlElement* child(std::string_view name) const;
};

/// The root. Attributes are passed over. Errors: corrupt_error, which names no file, for what is not XML, for a
/// document type (which may hold entities), and for more than 16 levels or 2^20 elements.
XmlElement parse_xml(std::span<const uint8_t> file);

}  // namespace penstock::detail
