// Trace: what a part contains, how parts become one trace, and rows that a viewer can draw. Also the recorder's laps.
#include "train/measure/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/testing.h"
#include "train/measure/recorder.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> names_of(const TraceLane& lane) {
  std::vector<std::string> names;
  for (const auto& event : lane.events) names.push_back(event.name);
  return names;
}

void write_part(const std::filesystem::path& out, int rank, const std::vector<TraceLane>& lanes, int64_t origin_ns) {
  AtomicFile file(trace_part_path(out, rank));
  write_trace_part(file, rank, lanes, origin_ns);
  file.commit();
}

json read(const std::filesystem::path& path) { return json::parse(std::ifstream(path)); }

TEST(TraceTest, PartsOfRanksBecomeOneTrace) {
  const TemporaryFolder folder("trace");
  const auto& out = folder.path();
  write_part(out, 0, {{"trainer", {{"wait", "step", 5'000'000'001, 5'000'001'501, {{"step", 3}}}}}}, 5'000'000'000);
  write_part(out, 2,
             {{"idle", {}, {{"a \"message\"", "00f", true, 3'000}, {"a message", "01", false, 2'500}}},
              {"say \"hi\"\n\xff", {{"a\\b", "op", 1'000, 1'000}}}},
             2'000);
  EXPECT_TRUE(read(trace_part_path(out, 0)).is_array());  // a part is a trace by itself
  std::vector<std::string> said;
  merge_trace(out, 3, {{"world_size", 3}}, [&](const std::string& line) { said.push_back(line); });

  const json trace = read(out / "trace.json");
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"]["world_size"], 3);
  const auto metadata = [](const char* name, int pid, int tid, const json& arguments) {
    return json{{"ph", "M"}, {"name", name}, {"pid", pid}, {"tid", tid}, {"ts", 0}, {"args", arguments}};
  };
  const json expected{
      metadata("process_name", 0, 0, {{"name", "rank 0"}}),
      metadata("process_sort_index", 0, 0, {{"sort_index", 0}}),
      metadata("thread_name", 0, 1, {{"name", "trainer"}}),
      metadata("thread_sort_index", 0, 1, {{"sort_index", 1}}),
      json{{"ph", "X"},
           {"name", "wait"},
           {"cat", "step"},
           {"pid", 0},
           {"tid", 1},
           {"ts", 0.001},
           {"dur", 1.5},
           {"args", {{"step", 3}}}},
      metadata("process_name", 2, 0, {{"name", "rank 2"}}),
      metadata("process_sort_index", 2, 0, {{"sort_index", 2}}),
      metadata("thread_name", 2, 1, {{"name", "idle"}}),
      metadata("thread_sort_index", 2, 1, {{"sort_index", 1}}),
      json{{"ph", "s"},
           {"name", "a \"message\""},
           {"cat", "message"},
           {"id", "00f"},
           {"pid", 2},
           {"tid", 1},
           {"ts", 1.0}},
      json{{"ph", "f"},
           {"bp", "e"},
           {"name", "a message"},
           {"cat", "message"},
           {"id", "01"},
           {"pid", 2},
           {"tid", 1},
           {"ts", 0.5}},
      metadata("thread_name", 2, 2, {{"name", "say \"hi\"\n\ufffd"}}),
      metadata("thread_sort_index", 2, 2, {{"sort_index", 2}}),
      json{{"ph", "X"}, {"name", "a\\b"}, {"cat", "op"}, {"pid", 2}, {"tid", 2}, {"ts", -1.0}, {"dur", 0.0}}};
  EXPECT_EQ(trace["traceEvents"], expected) << trace.dump(1);
  EXPECT_THAT(said, ElementsAre(concat("profile: ", (out / "trace-rank-1.json").string(),
                                       " is not there, so the trace lacks rank 1; expected a folder that all ranks "
                                       "share")));
  for (const int rank : {0, 1, 2}) EXPECT_FALSE(std::filesystem::exists(trace_part_path(out, rank)));
}

TEST(TraceTest, EventsThatCrossGetALaneEach) {
  const auto lanes = nested_lanes("ops", {{"late", "op", 60, 70},
                                          {"inner", "op", 10, 20},
                                          {"outer", "op", 10, 50},
                                          {"crosses", "op", 30, 60},
                                          {"second", "op", 20, 30},
                                          {"crosses too", "op", 55, 65}});
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].name, "ops");
  EXPECT_THAT(names_of(lanes[0]), ElementsAre("outer", "inner", "second", "crosses too"));
  EXPECT_EQ(lanes[1].name, "ops (2)");
  EXPECT_THAT(names_of(lanes[1]), ElementsAre("crosses", "late"));
}

TEST(TraceTest, ADiskWithoutTheFolderIsNamed) {
  const auto message =
      message_of(ErrorKind::kIo, [] { merge_trace("/no/such/folder", 1, {}, [](const std::string&) {}); });
  EXPECT_EQ(message, "/no/such/folder/trace.json: No such file or directory; expected to create it");
}

TEST(RecorderTest, LapsAreOfTheStepThatEndsBehindThem) {
  Recorder recorder;
  recorder.mark(Phase::kOther);  // laps are not kept yet
  recorder.end_step(6);
  recorder.keep_laps();
  for (const auto phase : {Phase::kWait, Phase::kForward}) recorder.mark(phase);
  recorder.note_message("a test", /*is_sent=*/true, 2, 3, 5);
  recorder.end_step(7);
  recorder.mark(Phase::kWait);
  recorder.end_step(8);
  recorder.mark(Phase::kOther);  // reading the loss still belongs to step 8
  recorder.restart();
  recorder.mark(Phase::kWait);  // an evaluation belongs to no step
  recorder.note_message("a test", true, 2, 3, 5);
  recorder.restart();
  recorder.mark(Phase::kBackward);
  recorder.note_message("a test", false, 3, 2, 5);
  recorder.end_step(9);
  const Laps laps = recorder.take_laps();

  std::vector<std::pair<Phase, int64_t>> of;
  for (const Lap& lap : laps.host) of.emplace_back(lap.phase, lap.step);
  EXPECT_THAT(of, ElementsAre(std::pair(Phase::kWait, 7), std::pair(Phase::kForward, 7), std::pair(Phase::kWait, 8),
                              std::pair(Phase::kOther, 8), std::pair(Phase::kBackward, 9)));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(laps.host[i].begin_ns, laps.host[i - 1].end_ns);
  EXPECT_GT(laps.host[4].begin_ns, laps.host[3].end_ns);
  EXPECT_TRUE(laps.device.empty());
  ASSERT_EQ(laps.messages.size(), 2u);
  EXPECT_EQ(laps.messages[0].step, 7);
  EXPECT_EQ(laps.messages[1].step, 9);
}

}  // namespace
}  // namespace penstock
