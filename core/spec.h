// Spec: the one syntax in which plug-ins are named and configured: `name(key=value,low_high=0.9:1.1)`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A range as written `low:high`; a single number v means v:v.
struct Range {
  double low = 0;
  double high = 0;
};

/// One `name(key=value,...)`. A getter gives the key's value or the default.
///
/// Errors: a getter throws config_error naming `where()`, key, value and what was expected.
/// Thread-safety: a value.
class Spec {
 public:
  Spec() = default;
  Spec(std::string kind, std::string name, std::vector<std::pair<std::string, std::string>> values);

  const std::string& name() const { return name_; }
  std::string where() const;  ///< "transform affine", as errors begin.

  bool has(const std::string& key) const;
  std::string get(const std::string& key, const char* fallback) const;
  double get(const std::string& key, double fallback) const;
  int get(const std::string& key, int fallback) const;
  bool get(const std::string& key, bool fallback) const;  ///< true/false, on/off, 1/0.
  Range get(const std::string& key, Range fallback) const;
  std::vector<double> get(const std::string& key, const std::vector<double>& fallback) const;  ///< `a:b:c`.

  /// The same spec, whose getters may be asked for `keys` alone: for others they throw bug_error. Throws
  /// `transform affine: unknown key "degree"; did you mean ...; it takes ...` where the spec has another one.
  Spec with_keys(std::vector<std::string> keys) const;
  /// The spec as it would be typed, keys in the order given.
  std::string text() const;

 private:
  const std::string* find(const std::string& key) const;
  double number(const std::string& key, const std::string& text) const;

  std::string kind_;
  std::string name_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::optional<std::vector<std::string>> keys_;  // the known ones; none: all
};

/// Parses one spec. `kind` ("transform", "source") is only for messages. Throws config_error on bad syntax.
Spec parse_spec(std::string_view kind, std::string_view text);

/// Parses `a(...),b,c(...)`; commas inside parentheses separate keys. Empty text gives no specs.
std::vector<Spec> parse_spec_list(std::string_view kind, std::string_view text);

}  // namespace penstock
