// ClassList: the classes of a data set whose samples name them one by one.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace penstock::detail {

/// Collects the class of each sample, in the order of the samples. Where all are whole numbers from 0 on, these are the
/// labels, and the classes are called "0" to the greatest; otherwise the classes are the different names, sorted by
/// bytes. Memory: 4 bytes per sample.
class ClassList {
 public:
  /// Adds the class of the next sample. Returns a number by which classes can be compared until finish() is called.
  uint32_t add(const std::string& name);
  /// Call it after the last add(). Throws corrupt_error `<where>: ...` for a number of 2^20 or more, which would be as
  /// many classes.
  void finish(const std::string& where);

  const std::vector<std::string>& names() const { return names_; }
  int64_t label(uint64_t sample) const { return labels_[sample]; }

 private:
  std::unordered_map<std::string, uint32_t> known_;
  std::vector<std::string> names_;
  std::vector<uint32_t> labels_;
};

}  // namespace penstock::detail
