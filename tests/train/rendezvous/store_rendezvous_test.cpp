// StoreRendezvous: which ranks are waited for, which are refused, and the sentence that all ranks get.
#include "train/rendezvous/store_rendezvous.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/free_port.h"
#include "train/rendezvous/address.h"

namespace {

/// How often the name was asked for that is this machine's, but for the first two times.
std::atomic<int> late_name_count{0};

}  // namespace

/// In place of the C library's: with names that name servers do not know yet, and one that they never will.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  if (name == "never.test" || (name == "late.test" && late_name_count++ < 2)) return EAI_AGAIN;
  return real(name == "late.test" ? "127.0.0.1" : host, service, hints, found);
}

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;

const RunFingerprint kFingerprint{{"--arch", "lenet"}, {"--lr", "0.1"}, {"--seed", "0"}};

RunFingerprint with(RunFingerprint fingerprint, const std::string& name, const std::string& value) {
  for (auto& entry : fingerprint)
    if (entry.name == name) entry.value = value;
  return fingerprint;
}

TEST(RunFingerprintTest, TheFirstDifferenceIsToldWithBothValuesAndTheOthersByName) {
  EXPECT_EQ(difference_of({kFingerprint, kFingerprint, kFingerprint}), "");
  EXPECT_EQ(difference_of({kFingerprint, kFingerprint, with(kFingerprint, "--lr", "0.2")}),
            "rank 2: --lr is 0.2; expected 0.1, as rank 0 has it");
  EXPECT_EQ(difference_of({kFingerprint, with(with(kFingerprint, "--arch", "mlp"), "--seed", "1")}),
            "rank 1: --arch is mlp; expected lenet, as rank 0 has it (--seed differs too)");
  EXPECT_EQ(difference_of({kFingerprint, {}}),
            "rank 1: --arch is unknown; expected lenet, as rank 0 has it (--lr, --seed differ too)");
}

TEST(RunFingerprintTest, TermsSurviveTheirText) {
  const RunFingerprint odd{{"--data", "a \"b\"\n[\\"}, {"--augment", ""}};
  const RunFingerprint back = parse_fingerprint(to_text(odd));
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].value, odd[0].value);
  EXPECT_EQ(difference_of({odd, back}), "");
  EXPECT_TRUE(parse_fingerprint("{").empty());
}

/// One entry per rank: the message that agree() throws there, or "".
std::vector<std::string> agreed(const std::vector<Rendezvous>& ranks, const std::vector<RunFingerprint>& fingerprint) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> messages(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        detail::SignedStore own(store, ranks[i].token);
        detail::agree(own, ranks[i], fingerprint[i], [](const std::string&) {});
      } catch (const Error& error) {
        messages[i] = concat(error.exit_code(), " ", error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  return messages;
}

TEST(StoreRendezvousTest, RanksWithEqualFingerprintsAgree) {
  EXPECT_EQ(agreed({{.rank = 0, .world_size = 3}, {.rank = 1, .world_size = 3}, {.rank = 2, .world_size = 3}},
                   {kFingerprint, kFingerprint, kFingerprint}),
            std::vector<std::string>(3));
}

TEST(StoreRendezvousTest, ADifferenceIsTheSameConfigErrorAtEveryRank) {
  EXPECT_EQ(agreed({{.rank = 0, .world_size = 3}, {.rank = 1, .world_size = 3}, {.rank = 2, .world_size = 3}},
                   {kFingerprint, with(kFingerprint, "--lr", "0.2"), kFingerprint}),
            std::vector<std::string>(3, "2 rank 1: --lr is 0.2; expected 0.1, as rank 0 has it"));
}

TEST(StoreRendezvousTest, WorldSizesAreComparedBeforeAllAreThere) {
  const auto messages =
      agreed({{.rank = 0, .world_size = 3}, {.rank = 1, .world_size = 4}}, {kFingerprint, kFingerprint});
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_THAT(messages[0], AllOf(HasSubstr("2 rank "), HasSubstr(": the world size is ")));
}

TEST(StoreRendezvousTest, ARankOfAnotherWorldSizeIsNotCountedAmongThoseThatArrived) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::string two = "2";
  static_cast<c10d::Store&>(*store).set("world-size", two);
  detail::SignedStore own(store, "");
  const auto join = [&] { detail::agree(own, {.rank = 1, .world_size = 3}, kFingerprint, [](const std::string&) {}); };
  EXPECT_EQ(message_of(ErrorKind::kConfig, join),
            "rank 1: the world size is 3; expected 2, as the rank that came first has it");
  // Rank 0 of 2 would take two ranks for all, and keeps the store until as many have left as have arrived.
  EXPECT_EQ(store->add("arrived", 0), 0);
  EXPECT_EQ(store->add("left", 0), 0);
}

TEST(StoreRendezvousTest, ARankThatIsThereAlreadyIsRefusedAtOnceAndTheOthersGoOn) {
  detail::SignedStore store(c10::make_intrusive<c10d::HashStore>(), "");
  const Rendezvous second{.rank = 1, .world_size = 2, .port = 4000};
  std::thread first(
      [&] { detail::agree(store, {.rank = 0, .world_size = 2}, kFingerprint, [](const std::string&) {}); });
  detail::agree(store, second, kFingerprint, [](const std::string&) {});
  EXPECT_THAT(
      message_of(ErrorKind::kDevice, [&] { detail::agree(store, second, kFingerprint, [](const std::string&) {}); }),
      HasSubstr("rank 1: there is a rank 1 at 127.0.0.1:4000 already"));
  first.join();
}

TEST(StoreRendezvousTest, RanksThatDoNotComeAreNamedMeanwhileAndAtTheEnd) {
  const int port = free_port();
  std::vector<std::string> lines;
  const Meeting meeting{.fingerprint = kFingerprint,
                        .log = [&](const std::string& line) { lines.push_back(line); },
                        .log_after_seconds = 0.5};
  const Rendezvous alone{.rank = 0, .world_size = 5, .port = port, .meeting_seconds = 1};
  const std::string place = concat("127.0.0.1:", port);
  EXPECT_EQ(message_of(ErrorKind::kDevice, [&] { detail::meet(alone, meeting); }),
            concat("rank 0: waited 1 s for ranks 1, 2, 3 and 1 more of 5 at ", place,
                   "; expected all ranks there, with the same --dist-url (or a longer --timeout)"));
  EXPECT_EQ(lines, std::vector<std::string>{concat("waiting for ranks 1, 2, 3 and 1 more of 5 at ", place, ", 0.5 s")});
}

TEST(StoreRendezvousTest, ARankZeroThatIsNotThereOrDoesNotAnswerHoldsNobodyForLonger) {
  const int silent = listen_on_loopback();
  for (const int port : {free_port(), detail::port_of(silent)}) {
    const Rendezvous alone{.rank = 1, .world_size = 2, .port = port, .meeting_seconds = 1};
    EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { detail::meet(alone, {}); }),
                HasSubstr(concat("rank 1: waited 1 s for rank 0 of 2 at 127.0.0.1:", port)));
  }
  close(silent);
}

TEST(StoreRendezvousTest, AHostThatDoesNotResolveIsToldAtOnce) {
  const Rendezvous nowhere{.rank = 1, .world_size = 2, .host = std::string(64, 'x'), .port = 4000};
  EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { detail::meet(nowhere, {}); }),
              HasSubstr("rendezvous: " + nowhere.host + ": "));
}

TEST(StoreRendezvousTest, ANameThatDoesNotResolveYetIsWaitedFor) {
  late_name_count = 0;
  const Rendezvous first{.rank = 0, .world_size = 2, .host = "late.test", .port = free_port(), .meeting_seconds = 60};
  Rendezvous second = first;
  second.rank = 1;
  std::thread other([&] { EXPECT_NO_THROW(detail::meet(second, {})); });
  detail::Met met;  // rank 0 serves its store, and rank 1 may still be reading
  EXPECT_NO_THROW(met = detail::meet(first, {}));
  other.join();
  EXPECT_GE(late_name_count, 3);
}

TEST(StoreRendezvousTest, ANameThatNeverResolvesIsToldInTheEnd) {
  const Rendezvous alone{.rank = 1, .world_size = 2, .host = "never.test", .port = 4000, .meeting_seconds = 1};
  EXPECT_EQ(
      message_of(ErrorKind::kDevice, [&] { detail::meet(alone, {}); }),
      concat("rank 1: waited 1 s for rank 0 of 2 at never.test:4000, a name that does not resolve yet (",
             gai_strerror(EAI_AGAIN), "); expected a name of rank 0's machine that every rank can resolve, or its ",
             "address (--dist-url tcp://IP:PORT)"));
}

TEST(StoreRendezvousTest, NameServersAreAskedOnceASecondAtMost) {
  late_name_count = 2;
  const int64_t start_ns = now_ns();
  const Rendezvous alone{.rank = 1, .world_size = 2, .host = "late.test", .port = free_port(), .meeting_seconds = 1};
  message_of(ErrorKind::kDevice, [&] { detail::meet(alone, {}); });
  EXPECT_LE(late_name_count - 2, 1 + ms_since(start_ns) / 1000);
}

}  // namespace
}  // namespace penstock
