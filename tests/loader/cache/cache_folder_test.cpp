// The cache: its budget, its locks, whose files it is that leave it, and a shard of it as memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "loader/cache/far_map.h"
#include "loader/cache/fetch_queue.h"
#include "loader/cache/folder.h"
#include "loader/cache/progress.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using PlaceKind = CacheFolder::Place::Kind;
using Evicts = CacheFolder::Evicts;

constexpr uint64_t kCacheShardBytes = 10'000, kCachedBytes = 12'288,
                   kCacheMarkerBytes = 4096;  // with the note, in blocks of 4,096

std::string cache_name(int number) { return std::string(30, '0') + std::to_string(10 + number); }

void drop_nothing(const std::string&) {}

CacheFolder::Place take_place(CacheFolder& folder, int number, Evicts evicts = Evicts::kAny, bool is_beside = false) {
  return folder.take(cache_name(number), kCacheShardBytes, evicts, is_beside, drop_nothing);
}

/// Makes a whole shard, last used at second `number`.
void cache_whole(CacheFolder& folder, int number, Evicts evicts = Evicts::kAny) {
  auto place = take_place(folder, number, evicts);
  ASSERT_EQ(place.kind, PlaceKind::kTaken);
  folder.publish(place, cache_name(number), kCacheShardBytes);
  const timespec times[2] = {{1000 + number, 0}, {1000 + number, 0}};
  futimens(place.file.descriptor(), times);
}

std::vector<std::string> cached_names(const CacheFolder& folder) {
  std::vector<std::string> names;
  for (const auto& shard : folder.list()) names.push_back(shard.sum.substr(30));
  return names;
}

TEST(CacheFolderTest, TakesItsBudgetBeforeTheFirstByte) {
  const penstock::TemporaryFolder scratch("cache-budget");
  CacheFolder folder(scratch.path() / "c", std::to_string(kCacheMarkerBytes + 2 * kCachedBytes));
  EXPECT_EQ(folder.room(kCacheShardBytes), 2U);
  EXPECT_EQ(folder.room(0 - sizeof(Progress)), 0U);  // with its note a shard of 0 bytes, if the sum wrapped
  const auto first = take_place(folder, 0), second = take_place(folder, 1);
  ASSERT_EQ(first.kind, PlaceKind::kTaken);
  ASSERT_EQ(second.kind, PlaceKind::kTaken);
  struct stat status {};
  ASSERT_EQ(stat(first.path.c_str(), &status), 0);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, kCacheShardBytes);
  EXPECT_EQ(take_place(folder, 2).kind, PlaceKind::kNoRoom);  // both are being written
}

TEST(CacheFolderTest, WhatIsHeldOrDownloadedIsBusyAndStays) {
  const penstock::TemporaryFolder scratch("cache-held");
  CacheFolder folder(scratch.path() / "c", std::to_string(kCacheMarkerBytes + 2 * kCachedBytes));
  cache_whole(folder, 0);
  cache_whole(folder, 1);
  {
    const auto held = folder.open_whole(cache_name(0), kCacheShardBytes);
    ASSERT_TRUE(bool{held});
    EXPECT_EQ(take_place(folder, 2, Evicts::kSpent).kind, PlaceKind::kNoRoom);
    EXPECT_THAT(cached_names(folder), ElementsAre("11", "10"));
    const auto place = take_place(folder, 2);
    EXPECT_EQ(place.kind, PlaceKind::kTaken);
    EXPECT_EQ(take_place(folder, 2).kind, PlaceKind::kBusy);
    EXPECT_FALSE(bool{folder.open_whole(cache_name(1), kCacheShardBytes)});  // it made room
    EXPECT_EQ(take_place(folder, 3).kind, PlaceKind::kNoRoom);               // one is read, one is written
  }
  EXPECT_EQ(take_place(folder, 3).kind, PlaceKind::kTaken);
}

TEST(CacheFolderTest, TheSpentLeaveFirstAndThenTheLeastRecentlyUsed) {
  const penstock::TemporaryFolder scratch("cache-order");
  CacheFolder folder(scratch.path() / "c", std::to_string(kCacheMarkerBytes + 3 * kCachedBytes));
  for (const int number : {2, 0, 1}) cache_whole(folder, number);
  EXPECT_THAT(cached_names(folder), ElementsAre("10", "11", "12"));
  EXPECT_EQ(take_place(folder, 3, Evicts::kSpent).kind, PlaceKind::kNoRoom);
  folder.mark_spent(cache_name(1));
  EXPECT_THAT(cached_names(folder), ElementsAre("11", "10", "12"));
  cache_whole(folder, 3, Evicts::kSpent);
  EXPECT_THAT(cached_names(folder), ElementsAre("10", "12", "13"));
  cache_whole(folder, 4);
  EXPECT_THAT(cached_names(folder), ElementsAre("12", "13", "14"));
  folder.mark_spent(cache_name(3));
  EXPECT_TRUE(bool{folder.open_whole(cache_name(3), kCacheShardBytes)});  // needed again
  EXPECT_EQ(take_place(folder, 5, Evicts::kSpent).kind, PlaceKind::kNoRoom);
}

TEST(CacheFolderTest, AnEndedDownloadIsTakenUpWithItsProgress) {
  const penstock::TemporaryFolder scratch("cache-resume");
  CacheFolder folder(scratch.path() / "c", "1mb");
  {
    const auto place = take_place(folder, 0);
    EXPECT_FALSE(read_progress(place.file.descriptor(), kCacheShardBytes));
    Progress progress{};
    std::copy(std::begin(kProgressMagic), std::end(kProgressMagic), progress.magic);
    progress.done = 777;
    write_progress(place.file.descriptor(), kCacheShardBytes, progress);
    EXPECT_EQ(take_place(folder, 0).kind, PlaceKind::kBusy);
    EXPECT_EQ(take_place(folder, 0, Evicts::kAny, /*is_beside=*/true).kind, PlaceKind::kTaken);
  }
  const auto again = take_place(folder, 0);
  ASSERT_EQ(again.kind, PlaceKind::kTaken);
  EXPECT_EQ(read_progress(again.file.descriptor(), kCacheShardBytes).value().done, 777U);
  EXPECT_FALSE(read_progress(again.file.descriptor(), kCacheShardBytes - 1));  // no note there
}

TEST(CacheFolderTest, ForeignFilesAreNeverTouched) {
  const penstock::TemporaryFolder scratch("cache-foreign");
  const auto path = scratch.path() / "c";
  CacheFolder folder(path, std::to_string(kCacheMarkerBytes + kCachedBytes));
  for (const char* name : {"notes.shard", "00000000000000000000000000000010.shard.bak", "picture.partial"})
    std::ofstream(path / name) << "mine";
  cache_whole(folder, 1);
  cache_whole(folder, 2);
  EXPECT_THAT(cached_names(folder), ElementsAre("12"));
  EXPECT_TRUE(std::filesystem::exists(path / "notes.shard"));
  EXPECT_TRUE(std::filesystem::exists(path / "picture.partial"));
  std::filesystem::create_directories(scratch.path() / "other");
  std::ofstream(scratch.path() / "other/letter") << "mine";
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { CacheFolder(scratch.path() / "other", "1mb"); }),
              HasSubstr("holds 1 file and is no cache"));
}

TEST(CacheFolderTest, OneLimitIsInForceWhileItIsUsed) {
  const penstock::TemporaryFolder scratch("cache-limits");
  const auto path = scratch.path() / "c";
  {
    const CacheFolder first(path, "1mb");
    EXPECT_EQ(CacheFolder(path, "").limit_bytes(), 1'000'000U);
    EXPECT_EQ(CacheFolder(path, "1000kb").limit_bytes(), 1'000'000U);
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { CacheFolder(path, "2mb"); }),
                HasSubstr("is in use with 1000000 bytes; expected the same limit of all that share it, here 2000000"));
  }
  EXPECT_EQ(CacheFolder(path, "2mb").limit_bytes(), 2'000'000U);
}

/// Writes `text` at the beginning of the marker.
void damage_marker(const std::filesystem::path& path, const std::string& text) {
  std::fstream(path / "penstock-cache", std::ios::binary | std::ios::in | std::ios::out)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

TEST(CacheFolderTest, ADamagedMarkerIsMendedAndTheShardsStay) {
  const penstock::TemporaryFolder scratch("cache-marker");
  const auto path = scratch.path() / "c";
  for (const std::string& text : {std::string(4096, 'x'), std::string("\0", 1), std::string("penstock shaed")}) {
    {
      CacheFolder folder(path, "1mb");
      cache_whole(folder, 1);
    }
    damage_marker(path, text);
    EXPECT_EQ(CacheFolder(path).list().size(), 1U) << "who looks at it mends it as well";
    damage_marker(path, text);
    CacheFolder folder(path, "2mb");
    EXPECT_EQ(folder.limit_bytes(), 2'000'000U);
    EXPECT_TRUE(folder.open_whole(cache_name(1), kCacheShardBytes));
    std::string line;
    std::ifstream marker(path / "penstock-cache");
    std::getline(marker, line);
    EXPECT_EQ(line, "penstock shard cache 1");
    EXPECT_TRUE(std::ranges::all_of(folder.shared(), [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(CacheFolderTest, AMarkerThatIsDamagedWhileOthersUseItIsRefused) {
  const penstock::TemporaryFolder scratch("cache-marker-used");
  const auto path = scratch.path() / "c";
  {
    const CacheFolder user(path, "1mb");
    damage_marker(path, "xx");
    EXPECT_EQ(message_of(ErrorKind::kIo, [&] { CacheFolder(path, "1mb"); }),
              concat((path / "penstock-cache").string(),
                     ": is damaged while others use the cache; expected its text to stay: end the programs that use ",
                     "the cache, and the next one mends it"));
  }
  EXPECT_EQ(CacheFolder(path, "1mb").limit_bytes(), 1'000'000U);
}

TEST(CacheFolderTest, OnlyAMarkerIsMended) {
  const penstock::TemporaryFolder scratch("cache-no-marker");
  const auto path = scratch.path() / "c";
  CacheFolder(path, "1mb");
  damage_marker(path, "penstock shard cache 2\n");
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { CacheFolder(path, "1mb"); }),
              HasSubstr("is not the marker of a cache of this version"));
  std::ofstream(path / "penstock-cache") << "mine";
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { CacheFolder(path, "1mb"); }),
              HasSubstr("it has 4 bytes, and one has 4096; expected to find one: remove the folder, or name another"));
  EXPECT_EQ(std::filesystem::file_size(path / "penstock-cache"), 4U);
}

TEST(CacheFolderTest, WhoLooksAtItIsNoUser) {
  const penstock::TemporaryFolder scratch("cache-look");
  const auto path = scratch.path() / "c";
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { CacheFolder{path}; }),
              HasSubstr("no cache; expected the folder of one"));
  EXPECT_FALSE(std::filesystem::exists(path));
  CacheFolder(path, "1mb");
  const CacheFolder look(path);
  EXPECT_EQ(look.limit_bytes(), 1'000'000U);
  EXPECT_EQ(CacheFolder(path, "2mb").limit_bytes(), 2'000'000U);
}

TEST(CacheFolderTest, OfTwoDownloadsBesideEachOtherTheFirstOneStays) {
  const penstock::TemporaryFolder scratch("cache-beside");
  CacheFolder folder(scratch.path() / "c", "1mb");
  auto slow = take_place(folder, 0), fast = take_place(folder, 0, Evicts::kAny, /*is_beside=*/true);
  ASSERT_EQ(fast.kind, PlaceKind::kTaken);
  folder.publish(fast, cache_name(0), kCacheShardBytes);
  folder.publish(slow, cache_name(0), kCacheShardBytes);
  const auto inode = [](const CacheFolder::Place& place) {
    struct stat status {};
    EXPECT_EQ(fstat(place.file.descriptor(), &status), 0);
    return status.st_ino;
  };
  EXPECT_EQ(inode(slow), inode(fast));
  EXPECT_EQ(folder.list().size(), 1U);
}

TEST(FarQueueTest, ServesInOrderAndForgets) {
  FetchQueue queue;
  const auto shard = [](const char* xxh3) { return FarShard{"", {1, xxh3}, nullptr}; };
  const auto order = [&] {
    std::string text;
    while (const auto next = queue.pop()) text += next->facts.xxh3;
    return text;
  };
  queue.expect({shard("a"), shard("b"), shard("c"), shard("d"), shard("e")});
  for (const char* xxh3 : {"d", "b", "d"}) queue.need_next(shard(xxh3));
  queue.expect({shard("e"), shard("f"), shard("b")});
  EXPECT_EQ(order(), "dbeacf");
  queue.expect({shard("a"), shard("b"), shard("c")});
  queue.need_next(shard("c"));
  for (const char* xxh3 : {"a", "c", "z"}) queue.forget(xxh3);
  EXPECT_EQ(order(), "b");
  EXPECT_TRUE(queue.empty());
}

TEST(CacheFolderTest, AShardThatIsLargerThanTheLimitIsRefusedWithBothNumbers) {
  const penstock::TemporaryFolder scratch("cache-large");
  CacheFolder folder(scratch.path() / "c", "9000");
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { (void)take_place(folder, 0); }),
              HasSubstr("--cache-limit: is 9000 bytes; expected at least 16384"));
}

/// A shard that lies in the cache of the process already, so that nothing is fetched.
TEST(FarMapTest, IsReadableWhileItIsHeldAndLeavesTheCacheAfterwardsAlone) {
  const penstock::TemporaryFolder scratch("far-map");
  setenv(kCacheDirVariable, (scratch.path() / "c").c_str(), 1);  // of the first cache that this process opens
  setenv(kCacheLimitVariable, "1mb", 1);
  const std::string xxh3 = cache_name(0);
  {
    CacheFolder folder(scratch.path() / "c", "1mb");
    auto place = take_place(folder, 0);
    ASSERT_EQ(pwrite(place.file.descriptor(), "last", 4, kCacheShardBytes - 4), 4);
    folder.publish(place, xxh3, kCacheShardBytes);
  }
  const auto file = scratch.path() / "c" / (xxh3 + ".shard");
  const FarMap map({"https://far/shard", {kCacheShardBytes, xxh3}, nullptr}, ShardCache::instance());
  const auto last = [&] { return std::string(reinterpret_cast<const char*>(map.bytes().last(4).data()), 4); };
  ASSERT_TRUE(map.needs_hold());
  {
    const FileHold hold(map), copy(hold);
    EXPECT_EQ(last(), "last");
    map.drop();
    EXPECT_EQ(last(), "last");
    EXPECT_FALSE(CacheFolder::remove_unused(file));
  }
  EXPECT_FALSE(CacheFolder::remove_unused(file));  // idle shards stay mapped until room is wanted
  map.drop();
  {
    const FileHold again(map);
    EXPECT_EQ(last(), "last");
    map.check_read();
  }
  map.drop();
  EXPECT_TRUE(CacheFolder::remove_unused(file));
}

TEST(ByteLimitTest, TakesUnitsAndPartsOfTheDisk) {
  const auto parsed = [](const char* text) { return parse_byte_limit("--to", text, 5000); };
  EXPECT_EQ(parsed("123"), 123U);
  EXPECT_EQ(parsed("1.5kb"), 1500U);
  EXPECT_EQ(parsed("2MB"), 2'000'000U);
  EXPECT_EQ(parsed("3gb"), 3'000'000'000U);
  EXPECT_EQ(parsed("80%"), 4000U);
  for (const char* text : {"", "0", "gb", "-5", "101%", "5 gb", "1e3", "nan", "inf", "99999999999999999999gb"})
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { parsed(text); }), HasSubstr("--to: is ")) << text;
}

TEST(CacheFolderTest, WhatIsNoFileIsNeitherWaitedForNorRemoved) {
  const penstock::TemporaryFolder scratch("cache-foreign");
  CacheFolder folder(scratch.path() / "c", "1mb");
  const auto shard = [&](int number, const char* ending) { return folder.path() / (cache_name(number) + ending); };
  ASSERT_EQ(mkfifo(shard(0, ".shard").c_str(), 0666), 0);
  ASSERT_EQ(mkfifo(shard(1, ".partial").c_str(), 0666), 0);
  std::filesystem::create_directory(shard(2, ".shard"));
  std::filesystem::create_symlink(scratch.path(), shard(3, ".shard"));
  EXPECT_TRUE(folder.list().empty());
  for (const int number : {0, 2, 3}) {
    const std::string message = message_of(ErrorKind::kIo, [&] { folder.open_whole(cache_name(number), 10); });
    EXPECT_THAT(message, HasSubstr("is no regular file")) << number;
  }
  const std::string message = message_of(ErrorKind::kIo, [&] { take_place(folder, 1); });
  EXPECT_THAT(message, HasSubstr("is no regular file"));
  for (const auto& path : {shard(0, ".shard"), shard(1, ".partial"), shard(2, ".shard"), shard(3, ".shard")})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

}  // namespace
}  // namespace penstock::detail
