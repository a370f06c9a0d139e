// Announced addresses: which one each rank takes.
#include "train/rendezvous/announced.h"

#include <gtest/gtest.h>

namespace penstock::detail {
namespace {

using Addresses = std::vector<std::string>;

TEST(AnnouncedTest, RanksOfOneMachineStayOnItsLoopback) {
  EXPECT_EQ(announced_addresses({{}, {"127.0.0.1", "127.0.1.1"}}), (Addresses{"127.0.0.1", "127.0.0.1"}));
}

TEST(AnnouncedTest, ARankIsWhereItsConnectionToTheStoreBegins) {
  EXPECT_EQ(announced_addresses({{"10.0.0.1", ""}, {"10.0.0.2", "10.0.0.1"}, {"10.0.0.3", "10.0.0.1"}}),
            (Addresses{"10.0.0.1", "10.0.0.2", "10.0.0.3"}));
}

TEST(AnnouncedTest, RanksOfTheStoresMachineAreWhereOthersHaveReachedIt) {
  // Rank 0 listens everywhere, and rank 1 has found it by the name of its own machine.
  EXPECT_EQ(announced_addresses({{}, {"127.0.0.1", "127.0.1.1"}, {"10.0.0.2", "10.0.0.1"}}),
            (Addresses{"10.0.0.1", "10.0.0.1", "10.0.0.2"}));
}

TEST(AnnouncedTest, ContactsSurviveTheirText) {
  const Contact back = parse_contact(to_text(Contact{"", "fe80::1%eth0"}));
  EXPECT_EQ(back.own, "");
  EXPECT_EQ(back.store, "fe80::1%eth0");
  EXPECT_EQ(parse_contact("").store, "");
}

TEST(AnnouncedTest, AddressesAreToldOfFourRanksAtMost) {
  EXPECT_EQ(to_text(Addresses{"a", "b"}), "rank 0 is at a, rank 1 at b");
  EXPECT_EQ(to_text(Addresses(6, "a")), "rank 0 is at a, rank 1 at a, rank 2 at a, rank 3 at a and 2 more");
}

}  // namespace
}  // namespace penstock::detail
