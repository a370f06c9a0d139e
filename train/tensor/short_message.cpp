// Short message: c10::Error and all others.
#include "train/tensor/short_message.h"

#include <c10/util/Exception.h>

namespace penstock {

std::string short_message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return error.what();
  const std::string text = torch_error->what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

}  // namespace penstock
