// RunFingerprint: what must be equal at all ranks of a run, and the sentence about what is not.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// `name` as the user knows it, `--lr`; `value` as it reads after "is".
struct FingerprintEntry {
  std::string name, value;
};
using RunFingerprint = std::vector<FingerprintEntry>;

/// A fingerprint as one text, and back; what is no such text gives an empty one.
std::string to_text(const RunFingerprint& fingerprint);
RunFingerprint parse_fingerprint(const std::string& text);

/// `rank 1: --lr is 0.2; expected 0.1, as rank 0 has it (--seed differs too)`: the first rank that has another
/// fingerprint than rank 0, and the first of these. "" where all ranks have the same.
std::string difference_of(const std::vector<RunFingerprint>& ranks);

}  // namespace penstock
