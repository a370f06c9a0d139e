// Spec: the one syntax in which plug-ins are named and configured: `name(key=value,low_high=0.9:1.1)`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A range, written `low:high`. A single number v means v:v.
struct Range {
  double low = 0;
  double high = 0;
};

/// One `name(key=value,...)`. A getter returns the key's value or the default.
///
/// Errors: a getter throws config_error, which names `where()`, the key, its value and what was expected.
/// Thread-safety: a value; const calls may run at the same time.
class Spec {
 public:
  Spec() = default;
  Spec(std::string kind, std::string name, std::vector<std::pair<std::string, std::string>> values);

  const std::string& name() const { return name_; }
  std::string where() const;  ///< "transform affine": the first words of an error message.

  bool has(const std::string& key) const;
  std::string get(const std::string& key, const char* fallback) const;
  double get(const std::string& key, double fallback) const;
  int get(const std::string& key, int fallback) const;
  bool get(const std::string& key, bool fallback) const;  ///< true/false, on/off, 1/0.
  Range get(const std::string& key, Range fallback) const;
  std::vector<double> get(const std::string& key, const std::vector<double>& fallback) const;  ///< Written `a:b:c`.
  /// Whether the key is the second of two words; the first is the default.
  bool is_second(const std::string& key, const char* first, const char* second) const;

  /// The same spec, restricted to `keys`: its getters throw bug_error for any other key. Throws `transform affine:
  /// unknown key "degree"; did you mean ...; it takes ...` when the spec has another key.
  Spec with_keys(std::vector<std::string> keys) const;
  Spec without(const std::string& key) const;  ///< The same spec as if the key had not been given.
  /// The spec as a user would type it, with the keys in the order in which they were given.
  std::string text() const;

 private:
  const std::string* find(const std::string& key) const;
  double number(const std::string& key, const std::string& text) const;

  std::string kind_;
  std::string name_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::optional<std::vector<std::string>> keys_;  // the known keys; without a value every key is known
};

/// Parses one spec; commas inside braces separate no keys. `kind` ("transform") is for messages. Throws config_error.
Spec parse_spec(std::string_view kind, std::string_view text);

/// The parts of `{a,b}|{c}|d` at the separators that are outside of braces.
std::vector<std::string> split_outside_braces(std::string_view text, char separator);

/// Parses `a(...),b,c(...)`; commas inside parentheses separate keys. Empty text gives no specs.
std::vector<Spec> parse_spec_list(std::string_view kind, std::string_view text);

}  // namespace penstock
