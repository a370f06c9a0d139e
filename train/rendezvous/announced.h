// Announced addresses: where the ranks of a run reach each other.
#pragma once

#include <string>
#include <vector>

namespace penstock::detail {

/// The two ends of the connection by which a rank has reached the store; what it listens on itself if it keeps the
/// store. "" where nothing is known, as of a rank 0 that listens on every interface.
struct Contact {
  std::string own;    ///< The address of this rank's machine: "10.0.0.7".
  std::string store;  ///< The address of the machine with the store.
};

std::string to_text(const Contact& contact);
Contact parse_contact(const std::string& text);

/// One entry per rank: the address at which others reach it. That is its own end of its connection to the store. A rank
/// that is on the machine of the store, and has connected to it by a loopback address or not at all, has the address at
/// which a rank of another machine has reached the store. 127.0.0.1 at all ranks if all of them are on that machine.
///
/// A machine's own name is no answer: Debian's /etc/hosts says 127.0.1.1 of it.
std::vector<std::string> announced_addresses(const std::vector<Contact>& ranks);

/// "rank 0 is at 10.0.0.7, rank 1 at 10.0.0.8", of 4 ranks at most, and how many more there are. None: all ranks are on
/// this machine.
std::string to_text(const std::vector<std::string>& addresses);

}  // namespace penstock::detail
