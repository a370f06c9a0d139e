// Bytes: texts and numbers as the bytes that they have in memory, and texts that lie in bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {

inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <class Element>
std::span<const uint8_t> as_bytes(const std::vector<Element>& elements) {
  return {reinterpret_cast<const uint8_t*>(elements.data()), elements.size() * sizeof(Element)};
}

inline std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Number>
void append_bytes(std::vector<uint8_t>& bytes, Number number) {
  const auto* first = reinterpret_cast<const uint8_t*>(&number);
  bytes.insert(bytes.end(), first, first + sizeof number);
}

}  // namespace penstock
