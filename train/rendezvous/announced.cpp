// Announced addresses: chosen from what all ranks say of their connections to the store.
#include "train/rendezvous/announced.h"

#include <algorithm>

#include "core/text.h"
#include "train/rendezvous/address.h"

namespace penstock::detail {
namespace {

bool is_of_one_machine(const std::string& address) { return address.empty() || is_loopback(address); }

}  // namespace

std::string to_text(const Contact& contact) { return concat(contact.own, ' ', contact.store); }

Contact parse_contact(const std::string& text) {
  const auto blank = text.find(' ');
  if (blank == std::string::npos) return {};
  return {text.substr(0, blank), text.substr(blank + 1)};
}

std::vector<std::string> announced_addresses(const std::vector<Contact>& ranks) {
  std::string of_store = "127.0.0.1";
  for (const auto& [own, store] : ranks)
    if (is_loopback(of_store) && !is_of_one_machine(own) && !is_of_one_machine(store)) of_store = store;
  std::vector<std::string> addresses;
  for (const auto& [own, store] : ranks) addresses.push_back(is_of_one_machine(own) ? of_store : own);
  return addresses;
}

std::string to_text(const std::vector<std::string>& addresses) {
  constexpr size_t kMost = 4;
  if (addresses.empty()) return "all ranks are on this machine";
  std::string text;
  for (size_t rank = 0; rank < std::min(addresses.size(), kMost); ++rank)
    text += concat(rank == 0 ? "" : ", ", "rank ", rank, rank == 0 ? " is at " : " at ", addresses[rank]);
  return addresses.size() <= kMost ? text : concat(text, " and ", addresses.size() - kMost, " more");
}

}  // namespace penstock::detail
