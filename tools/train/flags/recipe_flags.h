// The flags of `train` that recipes are made of, and --recipe itself.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

void add_recipe_flags(CLI::App& app, TrainOptions& options);

/// The flags of the recipe that these arguments name; none if there is no such recipe, which check_recipe() then says.
std::vector<std::string> typed_recipe(const std::vector<std::string>& arguments);

/// Throws config_error for an unknown recipe, for one without data, and for what depends on which of these flags were
/// typed.
void check_recipe(const CLI::App& app, const TrainOptions& options);

}  // namespace penstock
