// Recipes: --recipe NAME, sets of flags that are known to reach an accuracy.
#pragma once

#include <string>
#include <vector>

namespace penstock {

std::vector<std::string> recipe_names();

/// The flags of a recipe as a user would type them, "--epochs", "8", ...; docs/RECIPES.md says what each is for. Throws
/// config_error for an unknown name; "" has none.
std::vector<std::string> recipe_flags(const std::string& name);

/// In one line for people and for a shell, with values that need it in quotes.
std::string recipe_text(const std::string& name);

}  // namespace penstock
