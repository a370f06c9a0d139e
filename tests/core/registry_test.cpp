// Registry, text and error: plug-ins found by name, near misses, exit codes.
#include "core/registry.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "core/clock.h"
#include "core/number_text.h"

namespace penstock {
namespace {

struct Pump {
  explicit Pump(int flow) : flow(flow) {}
  int flow;
};

struct PumpKind {
  using Interface = Pump;
  static constexpr const char* kName = "pump";
  using Factory = std::function<std::unique_ptr<Pump>(const Spec&, int)>;
};

const Registered<PumpKind> kRegistered{"gear", {"flow"}, "flow=N (default 3)", [](const Spec& spec, int factor) {
                                         return std::make_unique<Pump>(spec.get("flow", 3) * factor);
                                       }};
const Registered<PumpKind> kOther{"screw", {}, "", [](const Spec&, int) { return std::make_unique<Pump>(0); }};

std::string pump_refusal(const std::string& text) {
  try {
    Registry<PumpKind>::make(parse_spec("pump", text), 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "accepted";
}

TEST(RegistryTest, MakesByNameAndPassesArguments) {
  EXPECT_EQ(Registry<PumpKind>::make(parse_spec("pump", "gear(flow=5)"), 10)->flow, 50);
  EXPECT_EQ(Registry<PumpKind>::make(parse_spec("pump", "gear"), 10)->flow, 30);
  EXPECT_EQ(Registry<PumpKind>::names(), (std::vector<std::string>{"gear", "screw"}));
}

TEST(RegistryTest, NamesUnknownNamesAndKeys) {
  EXPECT_EQ(pump_refusal("geer"), "unknown pump \"geer\"; did you mean \"gear\"? known: gear, screw");
  EXPECT_EQ(pump_refusal("turbine"), "unknown pump \"turbine\"; known: gear, screw");
  EXPECT_EQ(pump_refusal("gear(flw=1)"), "pump gear: unknown key \"flw\"; did you mean \"flow\"? it takes flow");
}

TEST(RegistryTest, UnknownKeysAreNamedBeforeBadValues) {
  EXPECT_EQ(pump_refusal("gear(flow=many)"), "pump gear: flow is \"many\"; expected a whole number");
  EXPECT_EQ(pump_refusal("gear(flow=many,x=1)"), "pump gear: unknown key \"x\"; it takes flow");
}

TEST(RegistryTest, RegisteringTwiceIsABug) {
  EXPECT_THROW(Registered<PumpKind>("gear", {}, "", nullptr), Error);
  EXPECT_EQ(Registry<PumpKind>::make(parse_spec("pump", "gear"), 1)->flow, 3);
}

TEST(TextTest, JoinsSplitsAndConcatenates) {
  EXPECT_EQ(concat("workers is ", -1, '/', 2.5), "workers is -1/2.5");
  EXPECT_EQ(join({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(split("a:b::", ':'), (std::vector<std::string>{"a", "b", "", ""}));
  EXPECT_EQ(split("", ':'), (std::vector<std::string>{""}));
}

TEST(TextTest, LongTextsAreShortenedInTheirMiddle) {
  EXPECT_EQ(shortened(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(shortened(std::string(1000, 'a') + std::string(1000, 'z')),
            std::string(100, 'a') + "...(1,800 bytes)..." + std::string(100, 'z'));
  // A character of two bytes at either border is kept whole or left out.
  const std::string two_bytes = "\u00e4";
  std::string text = std::string(99, 'a');
  for (int i = 0; i < 100; ++i) text += two_bytes;
  text += std::string(99, 'z');
  EXPECT_EQ(shortened(text), std::string(99, 'a') + "...(200 bytes)..." + std::string(99, 'z'));
  EXPECT_EQ(in_quotes("x y"), "\"x y\"");
  EXPECT_EQ(in_quotes(std::string(201, 'a')),
            '"' + std::string(100, 'a') + "...(1 byte)..." + std::string(100, 'a') + '"');
}

TEST(NumberTextTest, NounsAgreeAndGainsAreNotRoundedAway) {
  EXPECT_EQ(count_text(0, "worker"), "0 workers");
  EXPECT_EQ(count_text(1, "worker"), "1 worker");
  EXPECT_EQ(count_text(1234567, "worker"), "1,234,567 workers");
  EXPECT_EQ(count_text(1, "class", "classes"), "1 class");
  EXPECT_EQ(count_text(2, "class", "classes"), "2 classes");
  EXPECT_EQ(byte_text(999), "999 bytes");
  EXPECT_EQ(byte_text(9540000), "9.5 MB");
  EXPECT_EQ(byte_text(999960), "1.0 MB");
  EXPECT_EQ(percent_text(0.7149), "71 %");
  EXPECT_EQ(percent_text(0.9943, 2), "99.43 %");
  EXPECT_EQ(factor_text(1.07), "1.07x");
  EXPECT_EQ(factor_text(2.13), "2.1x");
  EXPECT_EQ(factor_text(23.4), "23x");
}

TEST(TextTest, NearestNameIsAPlausibleTypingMistake) {
  const std::vector<std::string> known{"affine", "flip", "shift", "normalize"};
  EXPECT_EQ(nearest_name("afine", known), "affine");
  EXPECT_EQ(nearest_name("normalise", known), "normalize");
  EXPECT_EQ(nearest_name("flp", known), "flip");
  EXPECT_EQ(nearest_name("rotate", known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(ErrorTest, KindsAreExitCodes) {
  EXPECT_EQ(config_error("").exit_code(), 2);
  EXPECT_EQ(io_error("").exit_code(), 3);
  EXPECT_EQ(corrupt_error("").exit_code(), 4);
  EXPECT_EQ(device_error("").exit_code(), 5);
  EXPECT_EQ(bug_error("").exit_code(), 6);
  errno = ENOENT;
  const Error error = errno_error("a/b", "pack it first");
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_STREQ(error.what(), "a/b: No such file or directory; pack it first");
}

TEST(ClockTest, NeverGoesBack) {
  int64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GE(ms_since(last), 0);
}

}  // namespace
}  // namespace penstock
