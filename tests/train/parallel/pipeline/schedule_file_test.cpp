// Schedule files: PyTorch's format to operations and back, and what is refused where.
#include "train/parallel/pipeline/schedule_file.h"

#include <gmock/gmock.h>

#include "core/text.h"
#include "tests/support/testing.h"
#include "train/parallel/pipeline/rank_schedules.h"

namespace penstock::detail {
namespace {

using Kind = Operation::Kind;

std::string csv_after_parsing(const std::string& text) { return csv_of(parse_schedule("f.csv", text)); }

std::string refusal_of(const std::string& text) {
  const auto message = message_of(ErrorKind::kConfig, [&] { parse_schedule("f.csv", text); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(ScheduleFileTest, CellsAreOperationsOfStagesAndMicroBatches) {
  const auto file = parse_schedule("f.csv", "0F0,0F1,,0B0,,0I1,0W1\r\n,1F0,1B0,1F1,1B1\r\n");
  EXPECT_EQ(file.micro_batches, 2);
  EXPECT_EQ(file.placement.part_count(), 2);
  EXPECT_EQ(file.ranks[0], (Schedule{{Kind::kForward, 0},
                                     {Kind::kForward, 1},
                                     {Kind::kBackward, 0},
                                     {Kind::kInputGradient, 1},
                                     {Kind::kWeightGradient, 1}}));
  EXPECT_EQ(file.ranks[1],
            (Schedule{{Kind::kForward, 0}, {Kind::kBackward, 0}, {Kind::kForward, 1}, {Kind::kBackward, 1}}));
}

TEST(ScheduleFileTest, ARankHasTheStagesOfItsRow) {
  const auto file = parse_schedule("f.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0");
  EXPECT_EQ(file.placement.parts_of(0), (std::vector{0, 3}));
  EXPECT_EQ(file.placement.parts_of(1), (std::vector{1, 2}));
  EXPECT_EQ(
      file.ranks[0],
      (Schedule{{Kind::kForward, 0, 0}, {Kind::kForward, 0, 1}, {Kind::kBackward, 0, 1}, {Kind::kBackward, 0, 0}}));
}

TEST(ScheduleFileTest, AByteOrderMarkAndEmptyLinesAtTheEndArePassedOver) {
  EXPECT_EQ(parse_schedule("f.csv",
                           "\xEF\xBB\xBF"
                           "0F0,0B0\r\n\r\n \n")
                .ranks.size(),
            1U);
}

TEST(ScheduleFileTest, OverlappedOperationsRunOneAfterTheOther) {
  EXPECT_EQ(csv_after_parsing("0F0,(0F1;0B0)OVERLAP_F_B,0B1"), "0F0,0F1,0B0,0B1\n");
}

TEST(ScheduleFileTest, MessagesAndWhatIsOfSlicesAreLeftOut) {
  EXPECT_EQ(csv_after_parsing("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            "0F0,0B0\n1F0,1B0\n");
}

TEST(ScheduleFileTest, EveryRegisteredScheduleIsReadAsItWasWritten) {
  for (const std::string& name : ScheduleRegistry::names()) {
    const SchedulePlan plan{.name = name, .ranks = 3, .micro_batches = 6, .interleave = schedule_traits(name).chunks};
    const PlacedSchedules placed{placement_of(plan), schedules_of(plan), plan.micro_batches};
    const auto again = parse_schedule("f.csv", csv_of(placed));
    EXPECT_EQ(again.ranks, placed.ranks) << name;
    EXPECT_EQ(again.micro_batches, 6) << name;
    for (int part = 0; part < placed.placement.part_count(); ++part)
      EXPECT_EQ(again.placement.rank_of(part), placed.placement.rank_of(part)) << name;
  }
}

TEST(ScheduleFileTest, WhatIsNoOperationIsNamedWithItsPlace) {
  EXPECT_EQ(refusal_of("0F0,0B0\n1F0,2BW0"),
            "f.csv: row 2 (rank 1), column 2: \"2BW0\" is no operation; expected [stage][F|B|I|W|SEND_F|RECV_F|SEND_B|"
            "RECV_B][micro-batch], as 2F0; older versions of PyTorch wrote B for I, and BW for B");
  for (const char* cell :
       {"F0", "0F", "0f0", "0 F0", "-1F0", "0F0x", "0F99999999999", "(0F0;0B0)", "(0F0", "()OVERLAP_F_B"})
    EXPECT_THAT(refusal_of(concat("0F0,", cell)), testing::HasSubstr("row 1 (rank 0), column 2: ")) << cell;
}

TEST(ScheduleFileTest, WhatIsMissingTwiceOrInTheWrongPlaceIsNamedWithItsPlace) {
  const auto expect = [](const std::string& text, const std::string& message) {
    EXPECT_EQ(refusal_of(text), "f.csv: " + message) << text;
  };
  expect("", "no operation; expected a row per rank");
  expect("0F0,0B0\n\n1F0,1B0", "row 2 (rank 1): no operation; expected a stage at every rank");
  expect("0F0,0B0\n,,,\n", "row 2 (rank 1): no operation; expected a stage at every rank");
  expect("0F0,1F0,1B0,0B0\n2F0,1B1",
         "row 2 (rank 1), column 2: 1B1 is of stage 1, which row 1 (rank 0), column 2 has too; expected every stage at "
         "one rank");
  expect("0F0,0B0\n2F0,2B0",
         "row 2 (rank 1), column 1: 2F0 is of stage 2, and stage 1 is nowhere; expected stages 0 to 1");
  expect("0F0,0B0,0F0", "row 1 (rank 0), column 3: 0F0 comes twice, first in column 1");
  expect("0F0,0B0,0F2,0B2", "row 1 (rank 0), column 3: 0F2 has no 0F1 beside it; expected micro-batches from 0 on");
  expect("0F0,0F1,0B0,0B1\n1F0,1B0",
         "row 1 (rank 0), column 4: 0B1 needs 1B1, which is missing; expected it in row 2 (rank 1)");
  expect("0F0,0B0\n1F0,1B0,1F1,1B1",
         "row 2 (rank 1), column 3: 1F1 needs 0F1, which is missing; expected it in row 1 (rank 0)");
  expect("0F0", "row 1 (rank 0), column 1: 0F0 needs 0B0, which is missing; expected it in row 1 (rank 0)");
  expect("0B0,0F0", "row 1 (rank 0), column 1: 0B0 comes before 0F0 in column 2, which it needs");
  expect("0F0,0W0,0I0", "row 1 (rank 0), column 2: 0W0 comes before 0I0 in column 3, which it needs");
  expect("0F0,0I0", "row 1 (rank 0), column 2: 0I0 needs 0W0, which is missing; expected it in row 1 (rank 0)");
  expect("0F0,0B0,0W0",
         "row 1 (rank 0), column 3: 0W0 comes beside 0B0 in column 2, which is both halves; expected I and W, or B");
}

TEST(ScheduleFileTest, AMessageThatIsMissingOrTooManyIsNamedWithItsPlace) {
  EXPECT_THAT(refusal_of("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0"),
              testing::HasSubstr("row 1 (rank 0), column 2: 0SEND_F0 needs 1RECV_F0, which is missing"));
  EXPECT_THAT(refusal_of("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0"),
              testing::HasSubstr("row 1 (rank 0), column 3: 0B0 needs 0RECV_B0, which is missing"));
  EXPECT_THAT(refusal_of("0F0,0SEND_F0,0B0"),
              testing::HasSubstr("row 1 (rank 0), column 2: 0SEND_F0 has no other rank at its other end"));
  EXPECT_THAT(refusal_of("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0"),
              testing::HasSubstr("row 2 (rank 1), column 1: 1F0 comes before 1RECV_F0 in column 2"));
}

TEST(ScheduleFileTest, RowsThatWaitForEachOtherAreRefused) {
  EXPECT_EQ(refusal_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"),
            "f.csv: row 1 (rank 0), column 2: 0B0 waits for ever: for 1B0 in row 2 (rank 1), column 3, before which "
            "that rank waits too");
  // Without its messages this one would come to its end.
  EXPECT_THAT(refusal_of("0F0,0F1,0RECV_B0,0SEND_F0,0SEND_F1,0B0,0RECV_B1,0B1\n"
                         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"),
              testing::HasSubstr("row 1 (rank 0), column 3: 0RECV_B0 waits for ever: for 1SEND_B0 in row 2 (rank 1)"));
}

}  // namespace
}  // namespace penstock::detail
