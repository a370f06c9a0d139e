// Key point pairs: which key points change places in a mirrored picture, by their names.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

using KeypointPairs = std::vector<std::pair<int, int>>;

/// Pairs of names that are equal but for left and right, or for l and r as words of their own, in any case and place:
/// left_eye and right_eye, LShoulder and RShoulder, "eye (l)" and "eye (r)".
KeypointPairs left_right_pairs(const std::vector<std::string>& names);

/// The pairs of `text`: none, or a/b:c/d, of names or of numbers from 0 on. Throws config_error `<where>: pairs ...`.
KeypointPairs pairs_of_text(const std::string& where, const std::string& text, const std::vector<std::string>& names);

}  // namespace penstock::detail
