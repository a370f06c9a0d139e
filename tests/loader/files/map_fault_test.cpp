// Maps of files that are cut short or cannot be read: an io_error names the sample, and the process goes on.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <latch>
#include <numeric>
#include <thread>

#include "loader/files/map_guard.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/files/safetensors.h"
#include "tests/loader/break_page.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using detail::MappedFile;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;
using testing_data::break_page;
using testing_data::TestData;
using testing_data::touch;

constexpr size_t kPage = 4096;

fs::path write_file(const fs::path& path, size_t byte_count, char byte = 1) {
  std::ofstream(path, std::ios::binary) << std::string(byte_count, byte);
  return path;
}

uint64_t sum_of(std::span<const uint8_t> bytes) { return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}); }

TEST(MapFaultTest, APageThatIsCutOffReadsAsZerosAndIsMarked) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", 10 * kPage);
  const MappedFile file(path), other(write_file(folder.path() / "other", kPage));
  EXPECT_FALSE(detail::has_map_faults());
  fs::resize_file(path, 6 * kPage);
  EXPECT_EQ(sum_of(file.bytes()), 6 * kPage);
  EXPECT_TRUE(detail::has_map_faults());
  const auto bytes = file.bytes();
  file.check_read(bytes.first(6 * kPage), "the first six");
  other.check_read();
  const std::string fact =
      ": the file was cut short while it was read, from 40960 bytes to 24576; expected that nobody changes it";
  for (const auto& part : {bytes.subspan(9 * kPage), bytes.subspan(6 * kPage - 1, 2), bytes})
    EXPECT_EQ(message_of(ErrorKind::kIo, [&] { file.check_read(part, "part"); }), "part" + fact);
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { read_from(file, [] {}); }), path.string() + fact);
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { read_from(file, [] { throw corrupt_error("zeros; expected ones"); }); }),
            path.string() + fact);
  EXPECT_EQ(message_of(ErrorKind::kCorrupt, [&] { read_from(other, [] { throw corrupt_error("own; expected it"); }); }),
            "own; expected it");
}

TEST(MapFaultTest, FaultsAreForgottenWithTheirMap) {
  const penstock::TemporaryFolder folder("map-fault");
  for (int round = 0; round < 3; ++round) {  // the entries in the list of the handler are reused
    MappedFile file(write_file(folder.path() / "file", 3 * kPage));
    read_from(file, [] {});
    fs::resize_file(folder.path() / "file", kPage);
    EXPECT_EQ(sum_of(file.bytes()), kPage);
    const MappedFile moved = std::move(file);
    EXPECT_TRUE(detail::has_map_faults());
    EXPECT_THROW(read_from(moved, [] {}), Error);
  }
  EXPECT_FALSE(detail::has_map_faults());
}

/// A thread whose fault counted only where no other thread had faulted before in that map could go on too early.
TEST(MapFaultTest, EveryFaultIsCountedAsLongAsItsMapExists) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", 4 * kPage);
  {
    const MappedFile file(path);
    fs::resize_file(path, kPage);
    EXPECT_EQ(sum_of(file.bytes()), kPage);
    EXPECT_EQ(detail::map_fault_count, 3U);
  }
  EXPECT_EQ(detail::map_fault_count, 0U);
}

TEST(MapFaultTest, WhatIsCutOffOfTheLastPageIsSeenInTheFilesLength) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", 5000);
  const MappedFile file(path);
  fs::resize_file(path, 4900);
  EXPECT_EQ(sum_of(file.bytes()), 4900u);
  read_from(file, [] {});  // no page is missing
  file.check_file(file.bytes().first(4900), "what is left");
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_from(file, [] { throw corrupt_error("zeros; expected ones"); }); }),
              HasSubstr("cut short while it was read, from 5000 bytes to 4900;"));
}

TEST(MapFaultTest, AFileThatIsRemovedOrReplacedIsStillMapped) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", 5000);
  const MappedFile file(path);
  fs::rename(write_file(folder.path() / "short", 10), path);
  EXPECT_EQ(sum_of(file.bytes()), 5000u);
  file.check_file();
  fs::remove(path);
  file.check_file();
}

TEST(MapFaultTest, ManyThreadsMayFaultAtOnceInManyMaps) {
  const penstock::TemporaryFolder folder("map-fault");
  constexpr size_t kFiles = 8, kPages = 300;
  std::vector<MappedFile> files;
  for (size_t i = 0; i < kFiles; ++i) {
    const auto path = write_file(folder.path() / std::to_string(i), kPages * kPage);
    files.emplace_back(path);
    fs::resize_file(path, (i + 1) * kPage);
  }
  std::latch start(2 * kFiles);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < 2 * kFiles; ++i) {  // two threads per file, while maps of other files come and go
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (size_t page = 0; page < kPages; ++page) {
        const auto bytes = files[i / 2].bytes().subspan(page * kPage, kPage);
        EXPECT_EQ(sum_of(bytes), page > i / 2 ? 0 : kPage);
        const auto check = [&] { files[i / 2].check_read(bytes, "page"); };
        if (page > i / 2) {
          EXPECT_THROW(check(), Error);
        } else {
          EXPECT_NO_THROW(check());
        }
        const MappedFile other(folder.path() / "0");
        EXPECT_EQ(sum_of(other.bytes()), kPage);
      }
    });
  }
}

void exit_with_42(int) { _exit(42); }

/// Reads a page that the file does not have, in a map that is not a MappedFile.
void fault_elsewhere(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  const auto* const map = static_cast<const volatile char*>(mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, fd, 0));
  (void)map[kPage];
}

TEST(MapFaultDeathTest, AFaultOutsideOfTheseMapsGoesToWhoeverHandledItBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs in a new process, in which no MappedFile exists yet
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", kPage);
  EXPECT_EXIT(
      {
        signal(SIGBUS, exit_with_42);
        const MappedFile file(path);
        fault_elsewhere(path);
      },
      testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // removes the handler of a sanitizer
        const MappedFile file(path);
        fault_elsewhere(path);
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const MappedFile file(path);
        raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

struct sigaction replaced_by_program {};

/// As Python's faulthandler: puts back what it has replaced, and sends the signal again.
void report_and_go_on(int signal) {
  sigaction(signal, &replaced_by_program, nullptr);
  raise(signal);
}

void install_as_faulthandler() {
  struct sigaction action {};
  action.sa_handler = report_and_go_on;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  sigaction(SIGBUS, &action, &replaced_by_program);
}

/// Ends with 7 if the page that was cut off reads as zero.
void read_cut_page(const fs::path& path) {
  const MappedFile file(write_file(path, 2 * kPage));
  fs::resize_file(path, kPage);
  detail::keep_map_handler();
  _exit(file.bytes()[kPage] == 0 ? 7 : 1);
}

TEST(MapFaultDeathTest, AHandlerOfTheProgramThatCameLaterGetsOtherFaultsOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", kPage);
  EXPECT_EXIT(
      {
        const MappedFile file(path);
        install_as_faulthandler();
        read_cut_page(folder.path() / "cut");
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        const MappedFile file(path);
        signal(SIGBUS, exit_with_42);
        detail::keep_map_handler();
        fault_elsewhere(path);
      },
      testing::ExitedWithCode(42), "");
}

TEST(MapFaultDeathTest, AHandlerThatPassesOnToTheGuardsEndsTheProcessAndNotInACircle) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", kPage);
  for (const bool faults : {true, false}) {
    EXPECT_EXIT(
        {
          signal(SIGBUS, SIG_DFL);
          const MappedFile file(path);
          for (int i = 0; i < 20; ++i) {  // it may come and go any number of times
            install_as_faulthandler();
            detail::keep_map_handler();
            if (i < 19) sigaction(SIGBUS, &replaced_by_program, nullptr);
          }
          if (faults) fault_elsewhere(path);
          raise(SIGBUS);
        },
        testing::KilledBySignal(SIGBUS), "");
  }
}

TEST(MapFaultTest, APageThatTheDiskDoesNotGiveIsNamed) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = write_file(folder.path() / "file", 5 * kPage);
  const MappedFile file(path);
  break_page(&file.bytes()[2 * kPage]);
  EXPECT_EQ(sum_of(file.bytes()), 4 * kPage);
  file.check_read(file.bytes().first(2 * kPage), "before");
  file.check_read(file.bytes().subspan(3 * kPage), "after");
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { read_from(file, [] {}); }),
            path.string() + ": byte 8192 of the file cannot be read; expected a disk without errors");
}

TEST(MapFaultTest, ATensorFileSaysSoItself) {
  const penstock::TemporaryFolder folder("map-fault");
  const auto path = folder.path() / "weights.safetensors";
  const std::vector<uint8_t> bytes(5 * kPage, 3);
  write_safetensors(path, {{"weight", "U8", {bytes.size()}, bytes, 0}});
  const Safetensors file(path);
  fs::resize_file(path, 3 * kPage);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_from(file, [&] { touch(file.tensors()[0].bytes); }); }),
              StartsWith(path.string() + ": the file was cut short"));
}

}  // namespace
}  // namespace penstock
