// Placement: which rank of a pipeline holds which stages of the model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Parts of the model, in its order, and the rank of each. The parts of one rank, in the same order, are its chunks.
///
/// Thread-safety: a value.
class Placement {
 public:
  /// `rank_of_part`: one entry per part. Requires that every rank from 0 to the highest one has a part.
  explicit Placement(std::vector<int> rank_of_part = {0}) : ranks_(std::move(rank_of_part)) {
    parts_.resize(static_cast<size_t>(*std::max_element(ranks_.begin(), ranks_.end())) + 1);
    for (size_t part = 0; part < ranks_.size(); ++part) {
      auto& own = parts_[static_cast<size_t>(ranks_[part])];
      chunks_.push_back(static_cast<int>(own.size()));
      own.push_back(static_cast<int>(part));
    }
  }

  /// Part q is chunk q / ranks of rank q % ranks: the way through the model goes around.
  static Placement loop(int ranks, int chunks) {
    std::vector<int> rank_of_part;
    for (int part = 0; part < ranks * chunks; ++part) rank_of_part.push_back(part % ranks);
    return Placement(std::move(rank_of_part));
  }

  /// Rank p has parts p and 2 * ranks - 1 - p: the way goes to the last rank and back, as the letter V.
  static Placement v(int ranks) {
    std::vector<int> rank_of_part;
    for (int part = 0; part < 2 * ranks; ++part) rank_of_part.push_back(std::min(part, 2 * ranks - 1 - part));
    return Placement(std::move(rank_of_part));
  }

  int rank_count() const { return static_cast<int>(parts_.size()); }
  int part_count() const { return static_cast<int>(ranks_.size()); }
  int rank_of(int part) const { return ranks_[static_cast<size_t>(part)]; }
  int chunk_of(int part) const { return chunks_[static_cast<size_t>(part)]; }
  int part_of(int rank, int chunk) const { return parts_of(rank)[static_cast<size_t>(chunk)]; }
  /// In the order of the model.
  const std::vector<int>& parts_of(int rank) const { return parts_[static_cast<size_t>(rank)]; }

 private:
  std::vector<int> ranks_, chunks_;      // one entry per part
  std::vector<std::vector<int>> parts_;  // one entry per rank
};

}  // namespace penstock::detail
