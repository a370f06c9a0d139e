// Out of memory: recognises the messages of LibTorch's allocators.
#include "train/tensor/out_of_memory.h"

#include <cstdlib>

#include "core/number_text.h"

namespace penstock {
namespace {

/// The text after `phrase`; nothing if the message does not contain it.
std::optional<std::string> text_after(const std::string& message, const std::string& phrase) {
  const auto at = message.find(phrase);
  return at == std::string::npos ? std::nullopt : std::optional(message.substr(at + phrase.size()));
}

}  // namespace

std::optional<std::string> missing_memory(const std::string& message) {
  // "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes. Error code 12 (Cannot ...)"
  if (const auto text = text_after(message, "can't allocate memory: you tried to allocate "))
    return byte_text(std::strtoull(text->c_str(), nullptr, 10));
  // "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of ..."
  if (const auto text = text_after(message, "CUDA out of memory. Tried to allocate "))
    return text->substr(0, text->find(". ")) + " on the device";
  return {};
}

}  // namespace penstock
