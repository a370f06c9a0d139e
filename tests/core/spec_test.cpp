// Spec: syntax, typed access, and the message for each mistake.
#include "core/spec.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace penstock {
namespace {

template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "accepted";
}

std::string parse_refusal(const std::string& text) {
  return refusal([&] { parse_spec_list("transform", text); });
}

TEST(SpecTest, ReadsNameAndKeys) {
  const Spec spec = parse_spec("transform", " affine( degrees = 10 , scale=0.9:1.1,name=a-b ) ");
  EXPECT_EQ(spec.name(), "affine");
  EXPECT_EQ(spec.where(), "transform affine");
  EXPECT_EQ(spec.get("degrees", 0.0), 10);
  EXPECT_EQ(spec.get("degrees", 0), 10);
  EXPECT_EQ(spec.get("scale", Range{}).high, 1.1);
  EXPECT_EQ(spec.get("name", ""), "a-b");
  EXPECT_EQ(spec.text(), "affine(degrees=10,scale=0.9:1.1,name=a-b)");
  EXPECT_EQ(spec.without("scale").text(), "affine(degrees=10,name=a-b)");
  EXPECT_EQ(spec.without("shear").text(), spec.text());
}

TEST(SpecTest, CommasInBracesSeparateNoKeys) {
  const Spec spec = parse_spec("source", "webdataset(shards={a,b}-{0..1}.tar,label=c)");
  EXPECT_EQ(spec.get("shards", ""), "{a,b}-{0..1}.tar");
  EXPECT_EQ(spec.get("label", ""), "c");
  EXPECT_EQ(spec.text(), "webdataset(shards={a,b}-{0..1}.tar,label=c)");
}

TEST(SpecTest, GivesDefaultsForAbsentKeys) {
  const Spec spec = parse_spec("source", "digits()");
  EXPECT_EQ(spec.text(), "digits");
  EXPECT_FALSE(spec.has("count"));
  EXPECT_EQ(spec.get("count", 7), 7);
  EXPECT_EQ(spec.get("p", 0.5), 0.5);
  EXPECT_EQ(spec.get("name", "x"), "x");
  EXPECT_TRUE(spec.get("on", true));
  EXPECT_EQ(spec.get("range", Range{1, 2}).low, 1);
  EXPECT_EQ(spec.get("list", std::vector<double>{1, 2}).size(), 2u);
}

TEST(SpecTest, ReadsRangesListsAndTruthValues) {
  const Spec spec = parse_spec("transform", "t(one=3,two=-1:2.5,list=1:2:3e-1,a=on,b=0,c=false)");
  EXPECT_EQ(spec.get("one", Range{}).low, 3);
  EXPECT_EQ(spec.get("one", Range{}).high, 3);
  EXPECT_EQ(spec.get("two", Range{}).low, -1);
  EXPECT_EQ(spec.get("list", std::vector<double>{}), (std::vector<double>{1, 2, 0.3}));
  EXPECT_TRUE(spec.get("a", false));
  EXPECT_FALSE(spec.get("b", true));
  EXPECT_FALSE(spec.get("c", true));
}

TEST(SpecTest, SplitsAListAtTopLevelCommas) {
  const auto specs = parse_spec_list("transform", "affine(degrees=10,scale=0.9:1.1), flip(p=0.5) ,shift");
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].text(), "affine(degrees=10,scale=0.9:1.1)");
  EXPECT_EQ(specs[1].text(), "flip(p=0.5)");
  EXPECT_EQ(specs[2].text(), "shift");
  EXPECT_TRUE(parse_spec_list("transform", "  ").empty());
}

TEST(SpecTest, RefusesBadSyntax) {
  for (const char* text : {"affine(", "affine)", "a((b=1))", "a(b=1", "(b=1)", "a,,b", "a,", "a(b)", "a(b=)", "a(=1)",
                           "a(b=1)c", "a(b=1,,c=2)"}) {
    EXPECT_NE(parse_refusal(text), "accepted") << text;
  }
  EXPECT_EQ(parse_refusal("flip(p=1,p=0)"),
            "transform \"flip(p=1,p=0)\": key \"p\" is given twice; expected name(key=value,...)");
  EXPECT_EQ(parse_refusal("RandomAffine(5)"),
            "transform \"RandomAffine(5)\": \"5\" is not key=value; expected "
            "random-affine(key=value,...), with the name of each value");
}

TEST(SpecTest, RefusesValuesOfTheWrongKind) {
  const Spec spec = parse_spec("transform", "t(a=ten,b=1.5,c=2:1,d=1:2:3,e=maybe,f=1:,g=inf,h=99999999999)");
  EXPECT_EQ(refusal([&] { spec.get("a", 1.0); }), "transform t: a is \"ten\"; expected a finite number");
  EXPECT_EQ(refusal([&] { spec.get("b", 1); }), "transform t: b is \"1.5\"; expected a whole number");
  EXPECT_EQ(refusal([] { parse_spec("transform", "t(n=99999999999)").get("n", 1); }),
            "transform t: n is \"99999999999\"; expected a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(refusal([&] { spec.get("c", Range{}); }), "transform t: c is \"2:1\"; expected low:high with low <= high");
  EXPECT_EQ(refusal([&] { spec.get("d", Range{}); }), "transform t: d is \"1:2:3\"; expected a number or low:high");
  EXPECT_EQ(refusal([&] { spec.get("e", true); }), "transform t: e is \"maybe\"; expected true or false");
  EXPECT_NE(refusal([&] { spec.get("f", Range{}); }), "accepted");
  EXPECT_NE(refusal([&] { spec.get("g", 1.0); }), "accepted");
  EXPECT_NE(refusal([&] { spec.get("h", 1); }), "accepted");
}

TEST(SpecTest, UnknownKeyIsNamedWithTheKnownOnes) {
  const Spec spec = parse_spec("transform", "affine(degree=10)");
  EXPECT_EQ(refusal([&] {
              spec.with_keys({"degrees", "scale"});
            }),
            "transform affine: unknown key \"degree\"; did you mean \"degrees\"? it takes degrees, scale");
  const Spec keyless = parse_spec("source", "digits(x=1)");
  EXPECT_EQ(refusal([&] { keyless.with_keys({}); }), "source digits: unknown key \"x\"; it takes no keys");
}

TEST(SpecTest, AKeyThatIsNotAmongTheKnownOnesCannotBeRead) {
  const Spec spec = parse_spec("transform", "affine(degrees=10)").with_keys({"degrees"});
  EXPECT_EQ(spec.get("degrees", 0), 10);
  try {
    spec.get("scale", 1.0);
    FAIL() << "expected a bug";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
  }
}

TEST(SpecTest, LongValuesAreShortenedInMessages) {
  const std::string value(100000, 'x');
  const Spec spec = parse_spec("transform", "t(a=" + value + ")");
  EXPECT_LT(refusal([&] { spec.get("a", 1.0); }).size(), 300u);
  EXPECT_LT(refusal([&] { spec.get("a", 1); }).size(), 300u);
  EXPECT_LT(refusal([&] { spec.get("a", Range{}); }).size(), 300u);
  EXPECT_LT(refusal([&] { spec.with_keys({"b"}); }).size(), 300u);
  EXPECT_LT(parse_refusal("t(" + value + ")").size(), 600u);
  EXPECT_LT(parse_refusal("t(" + value).size(), 600u);
}

}  // namespace
}  // namespace penstock
