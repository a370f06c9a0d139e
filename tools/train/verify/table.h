// Table: what verify-modes prints.
#pragma once

#include <string>
#include <vector>

#include "train/verify/verify.h"

namespace penstock {

/// The lines of the table, of one width for all pairs.
class VerdictTable {
 public:
  explicit VerdictTable(const std::vector<Comparison>& pairs);
  std::string head() const;
  std::string line(const Verdict& verdict) const;

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<size_t> widths_;  // one entry per column
};

/// "not run: dp with 2, 4 ranks: --mode dp: launched with 2 ranks; expected 1, ...". One line per reason.
std::vector<std::string> left_out_lines(const std::vector<Skipped>& left_out);

/// "caught by fp64: ddp, 3.1e-02 > 1e-12 (2 ranks, threads, lenet; largest in conv1.weight), 4 of 8 pairs". One
/// line per mode and class that does not hold.
std::vector<std::string> caught_lines(const std::vector<Verdict>& verdicts);

/// "place: ddp, 2 ranks, threads, lenet, fp64: step 3, ...", as text_of(Place) goes on.
std::string place_line(const Localised& localised);

/// "96 of 98 pairs hold".
std::string result_line(const std::vector<Verdict>& verdicts);

/// The same as JSON.
std::string json_text(const std::vector<Verdict>& verdicts, const std::vector<Skipped>& left_out,
                      const std::vector<Localised>& places);

}  // namespace penstock
