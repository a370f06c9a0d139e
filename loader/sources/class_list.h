// ClassList: the classes of a data set whose samples name them one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::detail {

/// The text without white space, as ASCII has it, at both ends.
std::string_view trimmed(std::string_view text);

/// The whole number that Python's int() makes of a text; nothing where that raises an error, or for more than 18
/// digits.
std::optional<int64_t> int_of(std::string_view text);

/// The finite number that a text is, also with white space around it; nothing for other texts and for a number that
/// begins with a needless 0, as 07 does.
std::optional<double> number_of(std::string_view text);

/// Whether a text says that there is no value: "", nan, NA, None and null, whatever their case.
bool is_missing(std::string_view text);

/// Collects the class of each sample, in the order of the samples. Where all are whole numbers from 0 on, also as 2.0,
/// these are the labels, and the classes are called "0" to the greatest. Otherwise the classes are the different names,
/// sorted by bytes, or by their value where all are numbers. Memory: 4 bytes per sample.
class ClassList {
 public:
  /// Adds the class of the next sample. Returns a number by which classes can be compared until finish() is called.
  uint32_t add(const std::string& name);
  /// Call it after the last add(). Throws corrupt_error `<where>: ...` for a number of 2^20 or more, which would be as
  /// many classes, and `<where_of(sample)>: ...` for a sample without a value where all others are numbers.
  void finish(const std::string& where, const std::function<std::string(uint64_t sample)>& where_of);

  const std::vector<std::string>& names() const { return names_; }
  int64_t label(uint64_t sample) const { return labels_[sample]; }

 private:
  void check_values(const std::function<std::string(uint64_t)>& where_of) const;

  std::unordered_map<std::string, uint32_t> known_;
  std::vector<std::string> names_;
  std::vector<uint32_t> labels_;
};

}  // namespace penstock::detail
