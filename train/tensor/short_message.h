// Short message: what an exception says, without the stack frames that LibTorch adds.
#pragma once

#include <exception>
#include <string>

namespace penstock {

/// The first line of what LibTorch throws (c10::Error); of other exceptions all that they say.
std::string short_message(const std::exception& error);

}  // namespace penstock
