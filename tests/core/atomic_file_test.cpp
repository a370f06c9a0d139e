// AtomicFile in folders in which others write: links, pipes, and what killed processes have left.
#include "core/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include "core/regular_file.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class AtomicFileTest : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  void put(const std::string& name, const std::string& text) const { std::ofstream(at(name)) << text; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder_{"atomic-file"};
};

TEST_F(AtomicFileTest, NoLinkIsFollowed) {
  put("users", "mine");
  for (const char* link : {"out.tmp", ".penstock-0.tmp", ".penstock-1.tmp", "out"})
    fs::create_symlink(at("users"), at(link));
  write_text(at("out"), "ours");
  EXPECT_EQ(read_text(at("users")), "mine");
  EXPECT_EQ(read_text(at("out")), "ours");
  EXPECT_FALSE(fs::is_symlink(at("out")));
  remove_left_asides(folder_.path());
  EXPECT_THAT(names(), ElementsAre(".penstock-0.tmp", ".penstock-1.tmp", "out", "out.tmp", "users"));
}

TEST_F(AtomicFileTest, APipeAndAFolderAreNotWaitedFor) {
  ASSERT_EQ(mkfifo(at(".penstock-0.tmp").c_str(), 0600), 0);
  fs::create_directory(at(".penstock-1.tmp"));
  write_text(at("out"), "ours");
  EXPECT_EQ(read_text(at("out")), "ours");
}

TEST_F(AtomicFileTest, WhatAKilledProcessHasLeftIsRemovedByTheNext) {
  put(".penstock-0.tmp", "half");
  put(".penstock-1.tmp", "half");
  put(".penstock-x.tmp", "somebody's");
  write_text(at("out"), "whole");
  EXPECT_THAT(names(), ElementsAre(".penstock-1.tmp", ".penstock-x.tmp", "out"));
  remove_left_asides(folder_.path());
  EXPECT_THAT(names(), ElementsAre(".penstock-x.tmp", "out"));
}

TEST_F(AtomicFileTest, FilesThatAreBeingWrittenAreNotTakenForLeftOnes) {
  AtomicFile one(at("one")), two(at("two"));
  remove_left_asides(folder_.path());
  EXPECT_THAT(names(), ElementsAre(".penstock-0.tmp", ".penstock-1.tmp"));
  one.write("1");
  two.write("2");
  two.commit();
  one.commit();
  EXPECT_EQ(read_text(at("one")) + read_text(at("two")), "12");
  EXPECT_THAT(names(), ElementsAre("one", "two"));
}

TEST_F(AtomicFileTest, ManyThreadsWriteIntoOneFolder) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 50; ++i) write_text(at(concat(thread)), concat(thread, " ", i));
    });
  for (auto& thread : threads) thread.join();
  for (int thread = 0; thread < 8; ++thread) EXPECT_EQ(read_text(at(concat(thread))), concat(thread, " 49"));
  EXPECT_EQ(names().size(), 8U) << testing::PrintToString(names());
}

TEST_F(AtomicFileTest, ANewFileReplacesNone) {
  put("out", "there");
  EXPECT_THAT(message_of(ErrorKind::kIo,
                         [&] {
                           AtomicFile file(at("out"));
                           file.write("new");
                           file.commit_as_new();
                         }),
              HasSubstr("out: File exists"));
  EXPECT_EQ(read_text(at("out")), "there");
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, AFolderOfThatNameIsNoticedBeforeTheWork) {
  fs::create_directory(at("out"));
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { AtomicFile(at("out")); }),
            at("out").string() + ": Is a directory; expected to create it");
}

TEST_F(AtomicFileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", at("endless"));
  fs::create_symlink("loop", at("loop"));
  for (const char* name : {"pipe", "endless", "."})
    EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_text(at(name)); }), HasSubstr("not a regular file")) << name;
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_text(at("loop")); }), HasSubstr("symbolic links"));
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_text(at("gone")); }), HasSubstr("gone: No such file"));
}

}  // namespace
}  // namespace penstock
