// Options, data names and schedules: what a command line may say.
#include "train/options/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "loader/shards/shard_writer.h"
#include "tests/support/testing.h"
#include "tests/train/small_dataset.h"
#include "train/feed/training_data.h"
#include "train/options/check.h"
#include "train/options/flag_table.h"
#include "train/options/options_file.h"
#include "train/options/rate_schedule.h"

namespace penstock {
namespace {

const std::vector<std::string> kArchs{"lenet", "resnet18"}, kModes{"ddp", "single"}, kOptimizers{"adamw", "sgd"};

std::string check_message(const std::function<void(TrainOptions&)>& change) {
  return message_of(ErrorKind::kConfig, [&] {
    TrainOptions options;
    change(options);
    check(options, kArchs, kModes, kOptimizers);
  });
}

TEST(DurationTest, NeedsItsUnit) {
  EXPECT_EQ(parse_duration_ns("--emulate-step", ""), 0);
  EXPECT_EQ(parse_duration_ns("--emulate-step", "1.2ms"), 1'200'000);
  EXPECT_EQ(parse_duration_ns("--emulate-step", "100us"), 100'000);
  EXPECT_EQ(parse_duration_ns("--emulate-step", "3s"), 3'000'000'000);
  EXPECT_EQ(parse_duration_ns("--emulate-step", "500ns"), 500);
  for (const char* text : {"1.2", "ms", "-1ms", "1.2 ms", "1h", "nanms", "infs", "3601s", "1e300s"}) {
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { parse_duration_ns("--emulate-step", text); }),
              "--emulate-step is \"" + std::string(text) +
                  "\"; expected a time with its unit, such as 1.2ms or 100us, up to 3600s");
  }
}

TEST(NetworkTextTest, IsADelayAndARate) {
  const auto parse_network = [](const char* text) { return penstock::parse_network("--sim-net", text); };
  EXPECT_FALSE(parse_network(""));
  EXPECT_EQ(parse_network("25us,10GB/s")->text, "25us,10GB/s");
  EXPECT_EQ(parse_network("25us,10GB/s")->delay_ns, 25'000);
  EXPECT_EQ(parse_network("25us,10GB/s")->bytes_per_second, 10e9);
  EXPECT_EQ(parse_network("0s,1.5MB/s")->delay_ns, 0);
  EXPECT_EQ(parse_network("0s,1.5MB/s")->bytes_per_second, 1.5e6);
  for (const char* text : {"25us", "10GB/s,25us", "25,10GB/s", "25us,10", "25us,10GB", "25us,0GB/s", "-1us,1GB/s",
                           "1us,-1GB/s", "1us,1GB/s,1", "1us,nanGB/s", "1us,infGB/s", "4000s,1GB/s", "1us, 1GB/s"}) {
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { parse_network(text); }),
              "--sim-net is \"" + std::string(text) +
                  "\"; expected a delay up to 3600s and a rate of 1B/s or more, with their units, such as 25us,10GB/s");
  }
}

TEST(TypedTest, AWrongTextLeavesTextAndValueAsTheyWere) {
  TrainOptions options;
  options.mode = " ddp( buckets = 3 ) ";
  EXPECT_EQ(options.mode.text(), " ddp( buckets = 3 ) ");
  EXPECT_EQ(options.mode->text(), "ddp(buckets=3)");
  EXPECT_THROW(options.mode = "pipeline(", Error);
  EXPECT_THROW(options.average = "ema(decay=2)", Error);
  EXPECT_EQ(options.mode.text(), " ddp( buckets = 3 ) ");
  EXPECT_EQ(options.mode->name(), "ddp");
  EXPECT_EQ(options.average.text(), "");
  EXPECT_EQ(options.average->every, 0);
}

TEST(TrainOptionsTest, DefaultsAreValid) { EXPECT_NO_THROW(check(TrainOptions(), kArchs, kModes, kOptimizers)); }

TEST(TrainOptionsTest, NumbersOutOfRangeNameFlagValueAndRange) {
  EXPECT_EQ(check_message([](auto& o) { o.workers = -3; }), "--workers is -3; expected 0 or more");
  EXPECT_EQ(check_message([](auto& o) { o.prefetch = 0; }), "--prefetch is 0; expected 1 or more");
  EXPECT_EQ(check_message([](auto& o) { o.batch_size = 0; }), "--batch-size is 0; expected 1 or more");
  EXPECT_EQ(check_message([](auto& o) { o.epochs = -1; }), "--epochs is -1; expected 0 or more");
  EXPECT_EQ(check_message([](auto& o) { o.momentum = 1; }), "--momentum is 1; expected 0 or more and less than 1");
  EXPECT_EQ(check_message([](auto& o) { o.label_smoothing = 1; }),
            "--label-smoothing is 1; expected 0 or more and less than 1");
  EXPECT_EQ(check_message([](auto& o) { o.rank = -2; }), "--rank is -2; expected -1 or more");
  EXPECT_EQ(check_message([](auto& o) { o.gpu = -2; }), "--gpu is -2; expected 0 or more");
  EXPECT_EQ(check_message([](auto& o) { o.bias_decay = -2; }),
            "--bias-decay is -2; expected 0 or more and less than inf");
  EXPECT_EQ(check_message([](auto& o) { o.learning_rate = NAN; }), "--lr is nan; expected 0 or more and less than inf");
  EXPECT_EQ(check_message([](auto& o) { o.learning_rate = -2; }), "--lr is -2; expected 0 or more and less than inf");
}

TEST(TrainOptionsTest, UnknownNamesListTheKnownOnesAndSuggestANearMiss) {
  const auto arch = check_message([](auto& o) { o.arch = "resnet1"; });
  EXPECT_NE(arch.find("did you mean \"resnet18\""), std::string::npos) << arch;
  EXPECT_NE(arch.find("lenet, resnet18"), std::string::npos) << arch;
  EXPECT_NE(check_message([](auto& o) { o.mode = "dp"; }).find("ddp, single"), std::string::npos);
  EXPECT_NE(check_message([](auto& o) {
              o.optimizer = "adam";
            }).find("--optimizer: unknown optimizer \"adam\"; did you mean \"adamw\""),
            std::string::npos);
  EXPECT_NE(check_message([](auto& o) { o.schedule = "cosin"; }).find("did you mean \"cosine\""), std::string::npos);
}

TEST(TrainOptionsTest, DecodePathsAreRead) {
  const auto path = [](const char* name) {
    TrainOptions options;
    options.decode = name;
    return *options.decode;
  };
  EXPECT_EQ(path("auto"), DecodePath::kAuto);
  EXPECT_EQ(path("index"), DecodePath::kIndex);
  EXPECT_EQ(path("region"), DecodePath::kRegion);
  EXPECT_EQ(path("full"), DecodePath::kFull);
  EXPECT_NE(check_message([](auto& o) { o.decode = "ful"; }).find("did you mean \"full\""), std::string::npos);
  EXPECT_NE(check_message([](auto& o) { o.dct_scale = "on"; }).find("always, auto, off"), std::string::npos);
}

TEST(TrainOptionsTest, EvaluationDecodesWholePicturesUnlessToldOtherwise) {
  const auto scales = [](const char* name) {
    TrainOptions options;
    options.dct_scale = name;
    return std::pair(training_dct_scale(options), evaluation_dct_scale(options));
  };
  EXPECT_EQ(scales("auto"), std::pair(DctScale::kAlways, DctScale::kOff));
  EXPECT_EQ(scales("always"), std::pair(DctScale::kAlways, DctScale::kAlways));
  EXPECT_EQ(scales("off"), std::pair(DctScale::kOff, DctScale::kOff));
}

TEST(SaveEveryTest, StepsAndEpochsAreRead) {
  EXPECT_EQ(parse_save_every("100 steps").steps, 100);
  EXPECT_EQ(parse_save_every("100").steps, 100);
  EXPECT_EQ(parse_save_every("100 steps").epochs, 0);
  EXPECT_EQ(parse_save_every("2 epochs").epochs, 2);
  EXPECT_EQ(parse_save_every("1 epoch").steps, 0);
  for (const char* bad : {"", "steps", "-1 steps", "3 days", "1 epoch please"})
    EXPECT_NE(
        message_of(ErrorKind::kConfig, [&] { parse_save_every(bad); }).find(concat("--save-every is \"", bad, "\"")),
        std::string::npos)
        << bad;
}

TEST(TrainOptionsTest, JsonHoldsEveryFlag) {
  const auto json = nlohmann::json::parse(to_json(TrainOptions()));
  EXPECT_EQ(json["batch-size"], 64);
  EXPECT_EQ(json["save-every"], "1 epochs");
  EXPECT_EQ(json["decode"], "auto");
  EXPECT_EQ(json["dct-scale"], "auto");
  EXPECT_GE(json.size(), 30u);
}

TEST(TrainOptionsTest, PathsNeedNotBeUtf8) {
  TrainOptions options;
  options.out = "runs/\xe9t\xe9";
  options.plugins = {"\xff.so"};
  const auto json = nlohmann::json::parse(to_json(options));
  EXPECT_EQ(json["out"], nlohmann::json::parse(R"({"percent-encoded": "runs/%E9t%E9"})"));
  EXPECT_EQ(text_in(json["out"]), options.out.string());
  EXPECT_EQ(text_in(json["plugin"][0]), "\xff.so");
  for (const std::string text : {"", "ünï", "100%", "100%\xff%25\n", "\xed\xa0\x80", "\xEF\xBF\xBD"})
    EXPECT_EQ(text_in(nlohmann::json::parse(json_of(text).dump())), text);
  EXPECT_TRUE(json_of("100% ünï").is_string());
  EXPECT_THROW(text_in(5), nlohmann::json::exception);
  EXPECT_EQ(text_of(std::vector<std::string>{"\xff"}), "[\"\xEF\xBF\xBD\"]");
}

TEST(ScheduleTest, CosineGoesFromTheRateToNothing) {
  EXPECT_DOUBLE_EQ(RateSchedule("cosine").factor(0, 100), 1);
  EXPECT_DOUBLE_EQ(RateSchedule("cosine").factor(50, 100), 0.5);
  EXPECT_NEAR(RateSchedule("cosine").factor(99, 100), 0.000246719817, 1e-11);
}

TEST(ScheduleTest, StepsFallAtAHalfAndThreeQuarters) {
  for (const auto& [step, rate] : {std::pair{49, 1.0}, {50, 0.1}, {74, 0.1}, {75, 0.01}, {99, 0.01}})
    EXPECT_DOUBLE_EQ(RateSchedule("step").factor(step, 100), rate) << step;
  EXPECT_DOUBLE_EQ(RateSchedule("constant").factor(99, 100), 1);
}

TEST(DataNameTest, SourcesAndFoldersAreToldApart) {
  EXPECT_EQ(parse_data_name("digits").source, "digits");
  EXPECT_EQ(parse_data_name("digits(count=5)").source, "digits(count=5)");
  const auto mnist = parse_data_name("mnist:some/folder");
  EXPECT_EQ(mnist.source, "mnist");
  EXPECT_EQ(mnist.folder, "some/folder");
  const auto folder = parse_data_name(std::filesystem::temp_directory_path().string());
  EXPECT_EQ(folder.source, "");
}

TEST(DataNameTest, APackedFolderOfASourcesNameWins) {
  const auto before = std::filesystem::current_path();
  const TemporaryFolder folder("data-name");
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directories("digits/train");
  EXPECT_EQ(parse_data_name("digits").source, "digits");
  std::ofstream("digits/train/manifest.json") << "{}";
  EXPECT_EQ(parse_data_name("digits").source, "");
  EXPECT_EQ(parse_data_name("digits").folder, "digits");
  EXPECT_EQ(parse_data_name("digits()").source, "digits()");
  std::filesystem::current_path(before);
}

TEST(DataNameTest, AFolderThatIsThereIsAFolderWhateverItsPathHolds) {
  const TemporaryFolder folder("data-name");
  for (const char* name : {"photos (2019)", "a:b", "digits(1)", "mnist(x):y", "(", "):"}) {
    const auto path = folder.path() / name / "packed";
    std::filesystem::create_directories(path);
    EXPECT_EQ(parse_data_name(path.string()).source, "") << path;
    EXPECT_EQ(parse_data_name(path.string()).folder, path);
    const auto plain = parse_data_name("image-folder:" + path.string());
    EXPECT_EQ(plain.source, "image-folder") << path;
    EXPECT_EQ(plain.folder, path);
    const auto with_key = parse_data_name("image-folder(test=val):" + path.string());
    EXPECT_EQ(with_key.source, "image-folder(test=val)") << path;
    EXPECT_EQ(with_key.folder, path);
    const auto missing = path.string() + "(2)";
    EXPECT_NE(message_of(ErrorKind::kIo, [&] { parse_data_name(missing); }).find("there is no such folder"),
              std::string::npos);
  }
}

TEST(DataNameTest, UnknownSourcesAreSuggestedAndMissingFoldersAreIoErrors) {
  const auto unknown = message_of(ErrorKind::kConfig, [] { parse_data_name("mnst:folder"); });
  EXPECT_NE(unknown.find("did you mean \"mnist\""), std::string::npos) << unknown;
  message_of(ErrorKind::kIo, [] { parse_data_name("no/such/folder"); });
}

TEST(AugmentTest, NormalizeIsAppendedOnlyWhereItIsMissing) {
  EXPECT_EQ(with_normalize(""), "normalize");
  EXPECT_EQ(with_normalize("flip(p=0.5)"), "flip(p=0.5),normalize");
  EXPECT_EQ(with_normalize("normalize(mean=0.5,std=0.5),flip"), "normalize(mean=0.5,std=0.5),flip");
}

TEST(AugmentTest, EvaluationKeepsWhatIsTheSameForEverySample) {
  EXPECT_EQ(deterministic_part("resize(size=256),affine(degrees=10),center-crop(size=224),flip(p=0.5),normalize,erase"),
            "resize(size=256),center-crop(size=224),normalize");
}

TEST(AugmentTest, EvaluationSeesTheMiddleWhereTrainingCropsAtRandom) {
  EXPECT_EQ(deterministic_part("random-resized-crop(size=224),flip,mixup,normalize"),
            "resize(size=256),center-crop(size=224),normalize");
  EXPECT_EQ(deterministic_part("random-resized-crop(size=20,scale=0.5:1,filter=bilinear),cutmix"),
            "resize(size=23,filter=bilinear),center-crop(size=20)");
  EXPECT_EQ(deterministic_part("random-resized-crop(height=112,width=224,interpolation=nearest)"),
            "resize(size=256,interpolation=nearest),center-crop(height=112,width=224)");
}

TEST(AugmentTest, EvaluationNeverMixes) {
  TrainOptions options;
  options.eval_augment = "mixup(alpha=1),normalize";
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { open_training_data(options, {}, [](const std::string&) {}); }),
            "--eval-augment: mixup(alpha=1) would mix the pictures that are evaluated; expected it in --augment alone");
}

/// Orientation 6 turns the picture by 90 degrees, so that height and width are exchanged.
TEST(AugmentTest, PicturesOnTheirSideAreSeenUpright) {
  const TemporaryFolder folder("upright");
  std::filesystem::create_directories(folder.path() / "train");
  Manifest manifest;
  manifest.split = "train", manifest.source = "test";
  manifest.sample_count = 1;
  manifest.class_names = {"a"}, manifest.class_counts = {1};
  ShardWriter writer(folder.path() / "train/shard-0.safetensors", std::nullopt);
  const std::vector<uint8_t> pixels(300);
  writer.add({.extent = {10, 30, 1}, .encoding = Encoding::kRaw, .bytes = pixels, .orientation = 6});
  manifest.shards.push_back({"shard-0.safetensors", 1, writer.finish(), std::string(32, '0')});
  write_manifest(folder.path() / "train", manifest);
  const auto dataset = Dataset::open(folder.path());
  EXPECT_EQ(rendered_extent(*dataset, Pipeline("normalize", {})), (Extent{30, 10, 1}));
}

TEST(CacheTest, ASourceIsPackedOnceAndAgainWhenItChanges) {
  const TemporaryFolder cache("cache");
  int packed_count = 0;
  const auto log = [&](const std::string& line) { packed_count += line.starts_with("packed ") ? 1 : 0; };
  const auto first = pack_into_cache({"digits(count=40)", {}}, "test", cache.path(), log);
  const auto again = pack_into_cache({"digits(count=40)", {}}, "test", cache.path(), log);
  EXPECT_EQ(first, again);
  EXPECT_EQ(packed_count, 1);
  const auto other = pack_into_cache({"digits(count=41)", {}}, "test", cache.path(), log);
  EXPECT_NE(first, other);
  EXPECT_EQ(packed_count, 2);
  EXPECT_EQ(Dataset::open(other)->size(), 41u);
}

}  // namespace
}  // namespace penstock
