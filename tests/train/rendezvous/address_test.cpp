// Address: where rank 0 listens, by each way to meet.
#include "train/rendezvous/address.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/free_port.h"
#include "train/comm/comm.h"
#include "train/rendezvous/rendezvous_file.h"
#include "train/rendezvous/store_rendezvous.h"

namespace penstock {
namespace {

using testing::AllOf, testing::AnyOf, testing::HasSubstr;

/// The local addresses, as the kernel prints them, of the sockets that listen at `port`.
std::vector<std::string> listeners(const char* table, int port) {
  std::vector<std::string> addresses;
  std::ifstream file(table);
  std::string line, slot, local, remote, state;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream(line) >> slot >> local >> remote >> state;
    const auto colon = local.find(':');
    if (state == "0A" && std::stoi(local.substr(colon + 1), nullptr, 16) == port)
      addresses.push_back(local.substr(0, colon));
  }
  return addresses;
}

TEST(AddressTest, ALoopbackRendezvousListensOnLoopbackOnly) {
  const int port = free_port();
  std::thread other([&] {
    auto comm = make_comm({.rank = 1, .world_size = 2, .port = port, .meeting_seconds = 60}, torch::kCPU, "auto");
    comm->barrier();
    comm->barrier();
  });
  auto comm = make_comm({.rank = 0, .world_size = 2, .port = port, .meeting_seconds = 60}, torch::kCPU, "auto");
  comm->barrier();
  EXPECT_EQ(listeners("/proc/net/tcp", port), std::vector<std::string>{"0100007F"});
  EXPECT_EQ(listeners("/proc/net/tcp6", port), std::vector<std::string>{});
  EXPECT_EQ(comm->backend(), "gloo and shared memory");
  comm->barrier();
  other.join();
}

TEST(AddressTest, AnInterfaceIsListenedOnAlone) {
  const int port = free_port();
  Rendezvous first{.rank = 0, .world_size = 2, .host = "0.0.0.0", .port = port, .interface = "lo"};
  Rendezvous second = first;
  second.rank = 1;
  std::thread other([&] { make_comm(second, torch::kCPU, "auto")->barrier(); });
  const auto comm = make_comm(first, torch::kCPU, "auto");
  EXPECT_EQ(listeners("/proc/net/tcp", port), std::vector<std::string>{"0100007F"});
  EXPECT_EQ(listeners("/proc/net/tcp6", port), std::vector<std::string>{});
  comm->barrier();
  other.join();
}

/// Three ranks meet by a file, of which the last one is on the machine that `check_in` makes it say. Returns where rank
/// 0 listens, in both tables of the kernel.
std::vector<std::string> listeners_by_file(
    const std::function<void(const std::string& path, const std::string& mark)>& check_in) {
  const TemporaryFolder folder("meeting");
  const std::string path = (folder.path() / "meeting").string();
  const auto meet = [&](int rank) {
    return detail::meet({.rank = rank, .world_size = 3, .host = "", .file = path, .meeting_seconds = 60}, {});
  };
  std::array<detail::Met, 3> met;  // rank 0 keeps the store until all have left
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) threads.emplace_back([&, rank] { met[static_cast<size_t>(rank)] = meet(rank); });
  std::optional<detail::RendezvousPlace> place;
  while (!(place = detail::read_rendezvous_file(path))) std::this_thread::yield();
  EXPECT_FALSE(place->address);  // not before the last rank has checked in
  check_in(path, place->mark);
  while (!(place = detail::read_rendezvous_file(path))->address) std::this_thread::yield();
  auto found = listeners("/proc/net/tcp", place->address->second);
  for (const auto& address : listeners("/proc/net/tcp6", place->address->second)) found.push_back(address);
  met[2] = meet(2);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(met[2].addresses, std::vector<std::string>(3, "127.0.0.1"));
  EXPECT_FALSE(std::filesystem::exists(path) || std::filesystem::exists(path + ".1"));
  return found;
}

TEST(AddressTest, RanksOfOneMachineThatMeetByAFileAreReachedOverLoopbackOnly) {
  std::optional<detail::CheckIn> check_in;
  EXPECT_EQ(listeners_by_file([&](const auto& path, const auto& mark) { check_in.emplace(path, 2, mark); }),
            std::vector<std::string>{"0100007F"});
}

TEST(AddressTest, ARankOfAnotherMachineThatMeetsByAFileFindsRankZeroOnEveryInterface) {
  const auto found =
      listeners_by_file([](const auto& path, const auto& mark) { std::ofstream(path + ".2") << mark << " 4711\n"; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].find_first_not_of('0'), std::string::npos);
}

TEST(AddressTest, AnAddressAndANameOfOneAreListenedOnAlone) {
  const auto place = [](const std::string& host, const std::string& interface = "") {
    const auto address = detail::address_to_listen_on(host, interface);
    return address ? address->text() : "everywhere";
  };
  EXPECT_EQ(place("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(place("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(place("::1"), "::1");
  EXPECT_EQ(place("0.0.0.0"), "everywhere");
  EXPECT_EQ(place("::"), "everywhere");
  EXPECT_EQ(place("0.0.0.0", "lo"), "127.0.0.1");
  // Ranks of one machine meet where the others look for rank 0, whatever Gloo uses.
  EXPECT_EQ(place("127.0.0.1", "any"), "127.0.0.1");
  EXPECT_TRUE(detail::is_loopback(place("localhost")));
}

TEST(AddressTest, WhatCannotBeListenedOnIsNamed) {
  const int socket = listen_on_loopback();
  const auto port = std::to_string(detail::port_of(socket));
  const auto loopback = detail::resolve("127.0.0.1").front();
  EXPECT_EQ(message_of(ErrorKind::kDevice, [&] { detail::listen_at(loopback, std::stoi(port)); }),
            "rendezvous: cannot listen on 127.0.0.1:" + port +
                ": Address already in use; expected a free port, and one rank 0");
  close(socket);
  EXPECT_THAT(
      message_of(ErrorKind::kDevice, [&] { detail::listen_at(detail::resolve("192.0.2.1").front(), std::stoi(port)); }),
      HasSubstr("expected an address of this machine, where rank 0 runs"));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { detail::address_of_interface("l0"); }),
              AllOf(HasSubstr("--interface: unknown interface \"l0\""), HasSubstr("lo")));
  // No server is asked for a name with a label of more than 63 letters.
  const std::string name(64, 'x');
  EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { detail::resolve(name); }), HasSubstr("rendezvous: " + name + ": "));
}

TEST(AddressTest, ASocketThatIsNotToBeHadIsTheReason) {
  const auto loopback = detail::resolve("::1").front();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string message = message_of(ErrorKind::kDevice, [&] { detail::listen_at(loopback, 0); });
  setrlimit(RLIMIT_NOFILE, &before);
  // Where the kernel has no IPv6 it says that instead.
  EXPECT_THAT(message, AnyOf(HasSubstr(": Too many open files; "), HasSubstr(": Address family not supported")));
}

}  // namespace
}  // namespace penstock
