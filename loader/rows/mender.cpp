// Mender: finds the corrupt one of two samples, and tries candidates until a row can be made.
#include "loader/rows/mender.h"

#include <algorithm>

#include "loader/order/mix.h"

namespace penstock::detail {

size_t Substitutes::class_of(int64_t label) const {
  return dataset_.manifest().class_names.empty() ? 0 : static_cast<size_t>(label);
}

void Substitutes::find_members() const {
  // A list of its own until it is whole: where a shard cannot be read, the next call begins anew.
  std::vector<std::vector<uint64_t>> members(std::max<size_t>(1, dataset_.manifest().class_names.size()));
  for (uint64_t k = 0; k < samples_.size(); ++k) {
    const uint64_t index = samples_.index_of(k);
    members[class_of(dataset_.at(index).label)].push_back(index);
  }
  members_ = std::move(members);
}

SampleOrder::Place Substitutes::candidate(int64_t label, int64_t epoch, uint64_t position, int number) const {
  std::call_once(is_found_, [this] { find_members(); });
  const auto& members = members_[class_of(label)];
  const uint64_t key = keyed_bits(seed_, static_cast<uint64_t>(epoch), 0x5B5);
  const uint64_t bits = keyed_bits(key, position, static_cast<uint64_t>(number));
  return {members[scaled_below(bits, members.size())], static_cast<uint32_t>(bits) | 1};
}

void Mender::mark(FoundRow& row, const Error& error) const {
  row.is_corrupt = true;
  rows_->add_sample(dataset_, row.index, error.what());
}

/// Finds out which of the two samples is corrupt. Where each can be made alone, the row's own columns cannot.
void Mender::blame(const BrokenRow& broken, const Error& error,
                   const std::function<void(const FoundRow&)>& make_alone) const {
  const auto can_be_made = [&](const FoundRow& row) {
    try {
      make_alone(row);
      return true;
    } catch (const Error& own) {
      if (!is_forgiven(own)) throw;
      return false;
    }
  };
  const bool is_partner = broken.is_mixed() && can_be_made(broken.row) && !can_be_made(broken.partner);
  mark(is_partner ? broken.partner : broken.row, error);
}

bool Mender::mend(const BrokenRow& broken, const Error* error, const std::function<void()>& make,
                  const std::function<void(const FoundRow&)>& make_alone) const {
  auto& [epoch, batch, number, row, partner, position, partner_position] = broken;
  const FoundRow first_row = row, first_partner = partner;
  if (error != nullptr) blame(broken, *error, make_alone);
  int tries = 0, partner_tries = 0;
  bool was_corrupt = false, is_made = false;
  while (!is_made) {
    was_corrupt |= row.is_corrupt;
    if (row.is_corrupt && !replace(epoch, position, tries, row)) break;
    if (partner.is_corrupt && !replace(epoch, partner_position, partner_tries, partner)) break;
    try {
      make();
      is_made = true;
    } catch (const Error& failure) {
      if (!is_forgiven(failure)) throw;
      blame(broken, failure, make_alone);
    }
  }
  if (was_corrupt) rows_->add_row(epoch, batch, number);
  if (is_made) return true;
  partner = first_partner;
  row = first_row;
  return false;
}

/// Puts the next candidate that passes its checksum in the place of the row's sample, if there is one. `tries` counts
/// the candidates of this row.
bool Mender::replace(int64_t epoch, uint64_t position, int& tries, FoundRow& row) const {
  if (policy_ != OnCorrupt::kSubstitute) return false;
  while (tries < Substitutes::kMost) {
    const auto place = substitutes_.candidate(row.sample.label, epoch, position, tries++);
    row.place_at(place);
    try {
      row.sample = dataset_.checked_at(place.index);
      row.is_corrupt = false;
      return true;
    } catch (const Error& error) {
      if (!is_forgiven(error)) throw;
      mark(row, error);
    }
  }
  return false;
}

}  // namespace penstock::detail
