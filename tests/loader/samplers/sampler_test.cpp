// Samplers in a loader: exact counts, one order for all ranks, and batches that can be reached from anywhere.
#include "loader/samplers/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing_data::BatchCopy;
using testing_data::consume;
using testing_data::make_loader;
using testing_data::TestData;

std::shared_ptr<const std::vector<double>> shared_weights(std::vector<double> weights) {
  return std::make_shared<const std::vector<double>>(std::move(weights));
}

std::shared_ptr<const std::vector<double>> uneven_weights(size_t size) {
  std::mt19937 random(11);
  std::vector<double> weights(size);
  for (auto& weight : weights) weight = static_cast<double>(random() % 1000) / 100;
  return shared_weights(std::move(weights));
}

std::map<uint64_t, uint64_t> id_counts(Loader& loader, int64_t epoch) {
  std::map<uint64_t, uint64_t> counts;
  loader.start_epoch(epoch);
  consume(loader, [&](const Batch& batch) {
    for (int64_t row = 0; row < batch.count(); ++row) ++counts[batch.ids()[static_cast<size_t>(row)]];
  });
  return counts;
}

std::string refusal_of(const TestData& data, const LoaderOptions& options) {
  try {
    make_loader(data, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string sampled_digest(const TestData& data, LoaderOptions options, int world_size, int64_t epoch,
                           const std::string& augment = "affine(degrees=20),flip") {
  Digest digest;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    auto loader = make_loader(data, options, augment);
    loader.start_epoch(epoch);
    consume(loader, [&](const Batch& batch) { digest.add(batch); });
  }
  return digest.hex();
}

/// Options that choose samples, for 120 of them.
std::vector<LoaderOptions> all_choices() {
  std::vector<LoaderOptions> all;
  for (const char* sampler :
       {"weighted", "weighted(rows=77)", "weighted(rows=500)", "weighted(replacement=true,rows=90)"})
    all.push_back({.batch_size = 24, .sampler = sampler, .weights = uneven_weights(120)});
  for (const char* sampler : {"class-balanced", "class-balanced(power=0.5,rows=99)", "repeat(n=3)",
                              "repeat(n=4,rows=160)", "uniform(rows=50)", "uniform(rows=250)", ""})
    all.push_back({.batch_size = 24, .subset = "percent(0-75),fraction(0.8)", .sampler = sampler});
  return all;
}

TEST(SamplerTest, EveryRegisteredSamplerIsTriedHere) {
  std::set<std::string> tried{"mix"};  // in mix_test.cpp: it needs several data sets
  for (const auto& options : all_choices())
    if (!options.sampler.empty()) tried.insert(parse_spec("sampler", options.sampler).name());
  for (const auto& [name, entry] : SamplerRegistry::entries()) EXPECT_TRUE(tried.contains(name)) << name;
}

std::string choice_name(const LoaderOptions& options) { return options.subset + " " + options.sampler; }

TEST(SamplerTest, WeightedCountsAreExactInEveryEpoch) {
  const TestData data({70, 50});
  const auto weights = uneven_weights(120);
  double sum = 0;
  for (const double weight : *weights) sum += weight;
  auto loader = make_loader(data, {.batch_size = 16, .sampler = "weighted(rows=500)", .weights = weights});
  for (const int64_t epoch : {0, 1, 5}) {
    auto counts = id_counts(loader, epoch);
    uint64_t rows = 0;
    for (uint64_t index = 0; index < 120; ++index) {
      const double share = 500 * (*weights)[index] / sum;
      EXPECT_LE(std::fabs(static_cast<double>(counts[1000 + index]) - share), 1) << "epoch " << epoch << ": " << index;
      EXPECT_TRUE((*weights)[index] > 0 || counts[1000 + index] == 0) << index;
      rows += counts[1000 + index];
    }
    EXPECT_EQ(rows, 500U);
  }
}

TEST(SamplerTest, ClassesAreBalancedToOneRow) {
  const TestData data({130});
  // Class 0 keeps all 13 samples, the others fewer and fewer.
  std::string list;
  for (int index = 0; index < 130; ++index)
    if (index / 10 + index % 10 < 13) list += std::to_string(1000 + index) + "\n";
  std::ofstream(data.folder() / "ids") << list;
  const std::string subset = "ids(" + (data.folder() / "ids").string() + ")";
  for (const int rows : {200, 203}) {
    auto loader =
        make_loader(data, {.batch_size = 16, .subset = subset, .sampler = concat("class-balanced(rows=", rows, ")")});
    std::map<uint64_t, uint64_t> of_class;
    auto counts = id_counts(loader, 3);
    for (const auto& [id, count] : counts) of_class[(id - 1000) % 10] += count;
    for (uint64_t label = 0; label < 10; ++label) {
      EXPECT_GE(of_class[label], 20U) << label;
      EXPECT_LE(of_class[label], rows == 200 ? 20U : 21U) << label;
      uint64_t least = UINT64_MAX, most = 0;
      for (const auto& [id, count] : counts)
        if ((id - 1000) % 10 == label) least = std::min(least, count), most = std::max(most, count);
      EXPECT_LE(most - least, 1U) << label;
    }
  }
  auto as_they_are = make_loader(data, {.batch_size = 16, .subset = subset, .sampler = "class-balanced(power=0)"});
  for (const auto& [id, count] : id_counts(as_they_are, 0)) EXPECT_EQ(count, 1U) << id;
}

TEST(SamplerTest, RepeatPutsEveryCopyIntoOneBatchAndOnARankOfItsOwn) {
  const TestData data({100});
  std::map<uint64_t, std::set<std::pair<int64_t, int>>> places;  // id: batch and rank
  std::map<uint64_t, std::set<std::vector<std::byte>>> pixels;
  for (int rank = 0; rank < 3; ++rank) {
    auto loader = make_loader(data, {.batch_size = 24, .rank = rank, .world_size = 3, .sampler = "repeat(n=3)"},
                              "affine(degrees=30),color-jitter(brightness=0.8)");
    loader.start_epoch(0);
    consume(loader, [&](const Batch& batch) {
      for (size_t row = 0; row < static_cast<size_t>(batch.count()); ++row) {
        places[batch.ids()[row]].emplace(batch.index(), rank);
        const auto one = batch.pixels().subspan(row * 144 * 4, 144 * 4);
        pixels[batch.ids()[row]].emplace(one.begin(), one.end());
      }
    });
  }
  EXPECT_EQ(places.size(), 100U);
  for (const auto& [id, found] : places) {
    EXPECT_EQ(found.size(), 3U) << id << ": one copy per rank";
    EXPECT_EQ(found.begin()->first, found.rbegin()->first) << id << ": all in one batch";
    EXPECT_EQ(pixels[id].size(), 3U) << id << ": each augmented on its own";
  }
}

TEST(SamplerTest, TheDigestIsTheSameForAnyRanksAndWorkers) {
  const TestData data({70, 50});
  for (auto options : all_choices()) {
    const auto expected = sampled_digest(data, options, 1, 2);
    for (int ranks = 2; ranks <= 8; ++ranks)
      EXPECT_EQ(sampled_digest(data, options, ranks, 2), expected) << choice_name(options) << ", " << ranks << " ranks";
    options.workers = 3;
    EXPECT_EQ(sampled_digest(data, options, 2, 2), expected) << choice_name(options);
    EXPECT_NE(sampled_digest(data, options, 2, 3), expected) << choice_name(options) << ": epochs differ";
  }
}

TEST(SamplerTest, ABatchIsTheSameWhetherTheLoaderCameToItOrBeganThere) {
  const TestData data({70, 50});
  for (const auto& options : all_choices()) {
    auto walking = make_loader(data, options, "affine(degrees=20)");
    std::vector<BatchCopy> batches;
    for (const int64_t epoch : {0, 1, 2, 3}) {
      walking.start_epoch(epoch);
      consume(walking, [&](const Batch& batch) {
        if (epoch == 3) batches.emplace_back(batch);
      });
    }
    for (const int64_t first : {int64_t{0}, walking.batches_per_epoch() / 2, walking.batches_per_epoch() - 1}) {
      auto jumping = make_loader(data, options, "affine(degrees=20)");
      jumping.start_epoch(3, first);
      EXPECT_EQ(BatchCopy(*jumping.next()), batches[static_cast<size_t>(first)])
          << choice_name(options) << ": " << first;
    }
  }
}

TEST(SamplerTest, ASampleThatComesTwiceInAnEpochIsAugmentedTwice) {
  const TestData data({10});
  for (const char* sampler : {"uniform(rows=40)", "weighted(rows=40)", "weighted(rows=40,replacement=true)"}) {
    auto loader =
        make_loader(data, {.batch_size = 40, .sampler = sampler, .weights = shared_weights(std::vector<double>(10, 1))},
                    "affine(degrees=40),color-jitter(brightness=0.8)");
    loader.start_epoch(0);
    const auto batch = *loader.next();
    std::set<std::vector<std::byte>> pictures;
    for (size_t row = 0; row < 40; ++row) {
      const auto one = batch.pixels().subspan(row * 144 * 4, 144 * 4);
      pictures.emplace(one.begin(), one.end());
    }
    EXPECT_EQ(pictures.size(), 40U) << sampler;
  }
}

TEST(SamplerTest, TheFirstCopyIsThatOfALoaderWithoutASampler) {
  const TestData data({40, 60});
  EXPECT_EQ(sampled_digest(data, {.batch_size = 20, .sampler = "repeat(n=1)"}, 1, 4),
            sampled_digest(data, {.batch_size = 20}, 1, 4));
  EXPECT_EQ(sampled_digest(data, {.batch_size = 20, .subset = "percent(0-100)"}, 1, 4),
            sampled_digest(data, {.batch_size = 20}, 1, 4));
}

TEST(SamplerTest, WeightsComeFromAFileById) {
  const TestData data({30});
  const auto path = (data.folder() / "weights").string();
  std::string text;
  std::vector<double> weights;
  for (int index = 29; index >= 0; --index) text += concat(1000 + index, ",", index % 3, "\n");
  for (int index = 0; index < 30; ++index) weights.push_back(index % 3);
  std::ofstream(path) << text;
  EXPECT_EQ(sampled_digest(data, {.batch_size = 20, .sampler = "weighted(file=" + path + ")"}, 1, 0),
            sampled_digest(data, {.batch_size = 20, .sampler = "weighted", .weights = shared_weights(weights)}, 1, 0));
  std::ofstream(path) << "1000,1\n";
  EXPECT_THAT(refusal_of(data, {.sampler = "weighted(file=" + path + ")"}),
              HasSubstr("has no weight for sample 1 (id 1001); expected one for every sample"));
}

TEST(SamplerTest, TextAndIdentitySayWhatIsChosen) {
  const TestData data({70, 50});
  const auto order = [&](const LoaderOptions& options) { return SampleOrder(*data.open(), options); };
  EXPECT_EQ(order({}).text(), "");
  EXPECT_EQ(order({}).identity(*data.open()), "");
  EXPECT_EQ(order({.subset = "percent(0-50)", .sampler = "class-balanced(rows=205)"}).text(),
            "subset percent(0-50), sampler class-balanced(rows=205): 205 rows per epoch of 60 samples; 10 classes of "
            "20 to 21 rows each");
  EXPECT_THAT(order({.sampler = "weighted", .weights = shared_weights(std::vector<double>(120, 2))}).text(),
              HasSubstr("a sample occurs 1 to 1 times"));
  const auto identity = [&](const LoaderOptions& options) { return order(options).identity(*data.open()); };
  auto weights = std::vector<double>(120, 2);
  const auto even = identity({.sampler = "weighted", .weights = shared_weights(weights)});
  weights[7] = 3;
  EXPECT_NE(identity({.sampler = "weighted", .weights = shared_weights(weights)}), even);
  EXPECT_NE(identity({.subset = "fraction(0.5,seed=1)"}), identity({.subset = "fraction(0.5,seed=2)"}));
}

TEST(SamplerTest, WhatIsWrongIsSaidInOneLine) {
  const TestData data({70, 50});
  const auto nan = std::nan("");
  const auto of = [](std::vector<double> weights) {
    weights.resize(120, 1);
    return shared_weights(std::move(weights));
  };
  const std::vector<std::pair<LoaderOptions, std::string>> wrong{
      {{.sampler = "weighted", .weights = of({1, -2})},
       "sampler weighted: the weight of sample 1 (id 1001) is -2; expected a number of 0 or more"},
      {{.sampler = "weighted", .weights = of({nan})}, "the weight of sample 0 (id 1000) is nan"},
      {{.sampler = "weighted", .weights = shared_weights(std::vector<double>(120))}, "all 120 weights are 0"},
      {{.sampler = "weighted", .weights = shared_weights({1, 2})}, "2 weights for 120 samples; expected one for each"},
      {{.sampler = "weighted"}, "sampler weighted: has no weights"},
      {{.weights = of({1})}, "120 weights without a sampler"},
      {{.sampler = "wighted"}, "unknown sampler \"wighted\"; did you mean \"weighted\"?"},
      {{.sampler = "weighted(row=3)"}, "unknown key \"row\""},
      {{.sampler = "uniform(rows=0)"}, "rows is 0; expected 1 or more rows per epoch"},
      {{.sampler = "repeat(n=0)"}, "n is 0; expected 1 or more copies"},
      {{.batch_size = 64, .sampler = "repeat(n=3)"}, "n is 3 with a batch size of 64; expected a batch size that is a"},
      {{.batch_size = 63, .sampler = "repeat(n=3,rows=363)"}, "rows is 363; expected a multiple of n, at most 360"},
      {{.sampler = "class-balanced(power=-1)"}, "power is -1; expected 0 to 16"},
      {{.shuffle = Shuffle::kRankLocal, .sampler = "uniform"}, "sampler uniform with rank-local shuffling"},
      {{.shuffle = Shuffle::kRankLocal, .subset = "percent(0-10)"}, "subset percent(0-10) with rank-local shuffling"}};
  for (const auto& [options, expected] : wrong) {
    const auto message = refusal_of(data, options);
    EXPECT_THAT(message, HasSubstr(expected));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(SamplerTest, AMixTakesPartnersFromTheSampledBatch) {
  const TestData data({70, 50});
  LoaderOptions options{.batch_size = 24, .sampler = "weighted(rows=100)", .weights = uneven_weights(120)};
  const auto expected = sampled_digest(data, options, 1, 0, "affine(degrees=20),mixup(alpha=1)");
  for (const int ranks : {2, 5})
    EXPECT_EQ(sampled_digest(data, options, ranks, 0, "affine(degrees=20),mixup(alpha=1)"), expected);
}

}  // namespace
}  // namespace penstock
