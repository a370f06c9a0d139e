// Tokens: what a launcher tells its ranks alone.
#pragma once

#include <string>

namespace penstock {

/// 32 hexadecimal digits that nobody can guess.
std::string random_token();

}  // namespace penstock
