// Progress: what each rank of a launch is doing, in memory that outlives the rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace penstock {

/// What one rank is at. It is written by this rank alone, and read when it has ended.
struct RankProgress {
  int64_t step = -1;                    // -1: none has begun
  int64_t begun_count = 0;              // operations
  std::array<char, 48> operation = {};  // "forward", "evaluation"; without taps "forward, backward or update"
  std::array<char, 128> tensor = {};    // "output of conv1"; "": not known, as without taps

  void begin(const std::string& what, const std::string& of_tensor = "");
};

/// "step 3, forward (output of conv1)", "the set-up of the mode".
std::string text_of(const RankProgress& progress);

/// Pages that this process shares with the children that it will have.
class Progress {
 public:
  explicit Progress(int ranks);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  RankProgress& of(int rank) { return ranks_[rank]; }

 private:
  size_t bytes_;
  RankProgress* ranks_;
};

}  // namespace penstock
