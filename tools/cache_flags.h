// --cache-dir and --cache-limit, of every tool that reads packed data sets.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "loader/cache/cache_options.h"
#include "loader/far/sim_link.h"

namespace penstock {

inline constexpr const char* kCacheDirHelp =
    "folder in which shards from https, s3 and gs are kept, shared by all processes of this machine (default: "
    "$PENSTOCK_CACHE_DIR, or ${XDG_CACHE_HOME:-~/.cache}/penstock-shards)";
inline constexpr const char* kCacheLimitHelp =
    "the most that the shards in it take: bytes, or as in 500mb, 100gb, or 80% of the disk (default: "
    "$PENSTOCK_CACHE_LIMIT, or 80% of what is free)";

inline constexpr const char* kSimLinkHelp =
    "let local data come as if from far away, through the cache, after a delay per request and at a rate, as in "
    "20ms,100MB/s; figures and sentences are marked [emulated]";

/// The flags also set the environment, from which the cache has its options: processes that this one starts share them.
/// An empty value is not one that was left out, as by a variable of a script that is not set: config_error.
inline void add_cache_flags(CLI::App& app, std::string& folder, std::string& limit, const std::string& group) {
  const auto add = [&](const char* flag, std::string& value, const char* variable, const char* help, const char* type,
                       const char* expected) {
    app.add_option(flag, value, help)
        ->each([=](const std::string& given) {
          if (given.empty()) throw config_error(concat(flag, ": is \"\"; expected ", expected));
          setenv(variable, given.c_str(), 1);
        })
        ->type_name(type)
        ->group(group);
  };
  add("--cache-dir", folder, kCacheDirVariable, kCacheDirHelp, "DIR", "a folder");
  add("--cache-limit", limit, kCacheLimitVariable, kCacheLimitHelp, "SIZE",
      "bytes as in 100gb, 500mb or 123456, or a part of the disk as in 80%");
}

/// --sim-link, whose value is checked where it is read, so that an empty one is refused as well.
inline CLI::Option* add_sim_link_flag(CLI::App& app, std::string& link) {
  return app.add_option("--sim-link", link, kSimLinkHelp)
      ->each([](const std::string& given) { parse_link_speed("--sim-link:", given); })
      ->type_name("DELAY,RATE");
}

inline void add_cache_flags(CLI::App& app) {
  static std::string folder, limit;  // the parser points to them as long as it lives; the environment has them
  add_cache_flags(app, folder, limit, "Options");
}

}  // namespace penstock
