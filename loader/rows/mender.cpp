// Mender: finds the corrupt one of two samples, and tries candidates until a row can be made.
#include "loader/rows/mender.h"

namespace penstock::detail {

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
  FoundRow first_row = row, first_partner = partner;
  for (FoundRow* first : {&first_row, &first_partner}) first->sample.hold = {};  // what is masked is not read
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
    row.sample.hold = {};  // before another shard is waited for
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
