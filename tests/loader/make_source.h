// What the tests of sources share: a source by its spec.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "loader/sources/source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock::testing_data {

inline std::unique_ptr<Source> make_source(const std::string& spec, const std::filesystem::path& input = {},
                                           const std::string& split = "train") {
  return SourceRegistry::make(parse_spec("source", spec), input, split);
}

inline std::string error_of_source(const std::string& spec, const std::filesystem::path& input,
                                   const std::string& split = "train") {
  return error_of([&] { make_source(spec, input, split); });
}

}  // namespace penstock::testing_data
