// Agreement: the fingerprint contains every flag that changes what is trained, and no other flag.
#include "train/run/agreement.h"

#include <ATen/Version.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "core/machine.h"
#include "core/text.h"
#include "loader/far/sim_link.h"
#include "tests/train/small_dataset.h"
#include "train/nn/model.h"
#include "train/options/flag_table.h"
#include "train/run/open_run.h"

namespace penstock {
namespace {

/// The set-up of a run with the small data set.
Setup small_setup(const std::function<void(TrainOptions&)>& change = [](TrainOptions&) {}) {
  TrainOptions options;
  options.data = small_dataset()->folder().parent_path().string();
  options.arch = "mlp";
  options.out = "/nowhere";
  options.only_evaluates = false;
  options.device = "cpu";
  change(options);
  return set_up(options, [](const std::string&) {});
}

/// The names of the entries that differ.
std::set<std::string> differing(const RunFingerprint& a, const RunFingerprint& b) {
  std::set<std::string> names;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].value != b[i].value) names.insert(a[i].name);
  return names;
}

TEST(AgreementTest, EveryAgreedFlagIsATermAndNoOtherIs) {
  const std::map<std::string, std::function<void(TrainOptions&)>> changes{
      {"data", [](auto& o) { o.data = "elsewhere"; }},
      {"split", [](auto& o) { o.split = "all"; }},
      {"augment", [](auto& o) { o.augment = "flip"; }},
      {"eval-augment", [](auto& o) { o.eval_augment = "flip"; }},
      {"size-schedule", [](auto& o) { o.size_schedule = "0:8"; }},
      {"shuffle", [](auto& o) { o.shuffle = "none"; }},
      {"tail", [](auto& o) { o.tail = "drop"; }},
      {"batch-size", [](auto& o) { o.batch_size = 7; }},
      {"workers", [](auto& o) { o.workers = 7; }},
      {"prefetch", [](auto& o) { o.prefetch = 7; }},
      {"resident", [](auto& o) { o.is_resident = true; }},
      {"graph", [](auto& o) { o.captures_steps = true; }},
      {"also", [](auto& o) { o.also = {"elsewhere"}; }},
      {"subset", [](auto& o) { o.subset = "classes(a)"; }},
      {"exclude-ids", [](auto& o) { o.exclude_ids = "elsewhere"; }},
      {"sampler", [](auto& o) { o.sampler = "repeat(n=3)"; }},
      {"on-corrupt", [](auto& o) { o.on_corrupt = "mask"; }},
      {"layout", [](auto& o) { o.layout = "u8"; }},
      {"decode", [](auto& o) { o.decode = "full"; }},
      {"dct-scale", [](auto& o) { o.dct_scale = "off"; }},
      {"cache", [](auto& o) { o.cache = "elsewhere"; }},
      {"repack", [](auto& o) { o.repacks = true; }},
      {"cache-dir", [](auto& o) { o.cache_dir = "elsewhere"; }},
      {"cache-limit", [](auto& o) { o.cache_limit = "1gb"; }},
      {"recipe", [](auto& o) { o.recipe = "cifar10-94"; }},
      {"sim-link",
       [](auto& o) {
         setenv(kSimLinkVariable, "1ms,7MB/s", 1);
         o.data = kSimScheme + o.data;
       }},
      {"arch", [](auto& o) { o.arch = "lenet"; }},
      {"pretrained", [](auto& o) { o.pretrained = "elsewhere"; }},
      {"new-head", [](auto& o) { o.has_new_head = true; }},
      {"freeze", [](auto& o) { o.freeze = "conv1"; }},
      {"layer-lr", [](auto& o) { o.layer_rates = "conv1=0.5"; }},
      {"precision", [](auto& o) { o.precision = "bf16"; }},
      {"channels-last", [](auto& o) { o.is_channels_last = true; }},
      {"epochs", [](auto& o) { o.epochs = 7; }},
      {"optimizer", [](auto& o) { o.optimizer = "adamw"; }},
      {"lr", [](auto& o) { o.learning_rate = 0.05 + 1e-9; }},
      {"schedule", [](auto& o) { o.schedule = "step"; }},
      {"momentum", [](auto& o) { o.momentum = 0.5; }},
      {"weight-decay", [](auto& o) { o.weight_decay = 0.5; }},
      {"bias-decay", [](auto& o) { o.bias_decay = 0.5; }},
      {"no-decay", [](auto& o) { o.no_decay = "norm,bias"; }},
      {"bias-lr", [](auto& o) { o.bias_rate = 7; }},
      {"layer-decay", [](auto& o) { o.layer_decay = 0.7; }},
      {"loss", [](auto& o) { o.loss = "other"; }},
      {"label-smoothing", [](auto& o) { o.label_smoothing = 0.5; }},
      {"clip-grad", [](auto& o) { o.clip = "norm=7"; }},
      {"average", [](auto& o) { o.average = "ema(every=7)"; }},
      {"tta", [](auto& o) { o.test_views = "flip"; }},
      {"seed", [](auto& o) { o.seed = 7; }},
      {"exact", [](auto& o) { o.exact_shards = 16; }},
      {"exact-kernels", [](auto& o) { o.exact_kernels = "native"; }},
      {"device", [](auto& o) { o.device = "cuda"; }},
      {"gpu", [](auto& o) { o.gpu = 7; }},
      {"threads", [](auto& o) { o.threads = 7; }},
      {"mode", [](auto& o) { o.mode = "ddp"; }},
      {"print-schedule", [](auto& o) { o.prints_schedule = true; }},
      {"nproc", [](auto& o) { o.nproc = 7; }},
      {"hostfile", [](auto& o) { o.hostfile = "elsewhere"; }},
      {"include", [](auto& o) { o.include = "elsewhere"; }},
      {"exclude", [](auto& o) { o.exclude = "elsewhere"; }},
      {"max-restarts", [](auto& o) { o.max_restarts = 7; }},
      {"dry-run", [](auto& o) { o.only_prints_commands = true; }},
      {"world-size", [](auto& o) { o.world_size = 7; }},
      {"rank", [](auto& o) { o.rank = 7; }},
      {"dist-url", [](auto& o) { o.dist_url = "elsewhere"; }},
      {"dist-backend", [](auto& o) { o.dist_backend = "gloo"; }},
      {"hosting", [](auto& o) { o.hosting = "threads"; }},
      {"interface", [](auto& o) { o.interface = "eth7"; }},
      {"timeout", [](auto& o) { o.timeout_seconds = 7; }},
      {"out", [](auto& o) { o.out = "elsewhere"; }},
      {"force", [](auto& o) { o.replaces_run = true; }},
      {"save-every", [](auto& o) { o.save_every.epochs = 7; }},
      {"keep", [](auto& o) { o.keep = 7; }},
      {"resume", [](auto& o) { o.resume = "elsewhere"; }},
      {"print-config", [](auto& o) { o.prints_config = true; }},
      {"evaluate", [](auto& o) { o.only_evaluates = true; }},
      {"check", [](auto& o) { o.only_checks = true; }},
      {"eval-at-end", [](auto& o) { o.evaluates_each_epoch = false; }},
      {"print-freq", [](auto& o) { o.print_freq = 7; }},
      {"profile", [](auto& o) { o.profile_steps = 7; }},
      {"plugin", [](auto& o) { o.plugins = {"elsewhere"}; }},
      {"predicted-step", [](auto& o) { o.predicted_step_ns = 7; }},
      {"emulate-step", [](auto& o) { o.emulation.step_ns = 7; }},
      {"emulate-load", [](auto& o) { o.emulation.load_ns = 7; }},
      {"sim-net",
       [](auto& o) {
         o.emulation.network = {7'000, 7e9, "7us,7GB/s"};
       }},
  };
  penstock::Setup setup = small_setup();
  const TrainOptions options = setup.options;
  const RunFingerprint fingerprint = fingerprint_of(setup);
  for (const Flag& flag : flag_table()) {
    const auto change = changes.find(flag.name);
    ASSERT_NE(change, changes.end()) << "--" << flag.name << " is new: say here how to change it";
    setup.options = options;
    change->second(setup.options);
    const bool is_told_by_contents = std::set<std::string>{"data", "augment", "eval-augment"}.contains(flag.name);
    const bool is_agreed = flag.uses.is_agreed && !is_told_by_contents;
    EXPECT_EQ(differing(fingerprint, fingerprint_of(setup)),
              is_agreed ? std::set{"--" + flag.name} : std::set<std::string>());
    EXPECT_NE(text_of(flag.value(setup.options)), text_of(flag.value(options))) << flag.name;
  }
}

TEST(AgreementTest, ContentsCountAndNotTheirPaths) {
  const RunFingerprint fingerprint = fingerprint_of(small_setup());
  const TemporaryFolder folder("agreement");
  std::filesystem::copy(small_dataset()->folder().parent_path(), folder.path() / "copy",
                        std::filesystem::copy_options::recursive);
  const auto of_data = [](const std::string& data) {
    return fingerprint_of(small_setup([&](auto& o) { o.data = data; }));
  };
  EXPECT_EQ(differing(fingerprint, of_data((folder.path() / "copy").string())), std::set<std::string>());
  pack({.source = "digits(count=130,size=20)",
        .input = {},
        .split = "train",
        .output = folder.path() / "other",
        .shard_count = 5,
        .shuffle_seed = 3});
  EXPECT_EQ(differing(fingerprint, of_data((folder.path() / "other").string())), std::set<std::string>{"--data"});
}

TEST(AgreementTest, AScheduleCountsByWhatItsFileSays) {
  const TemporaryFolder folder("agreement-schedule");
  const auto of_file = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
    return fingerprint_of(small_setup([&](auto& o) {
      o.mode = concat("pipeline(schedule=", (folder.path() / name).string(), ")");
      o.nproc = 2;
    }));
  };
  const auto one = of_file("a.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(differing(one, of_file("b.csv", "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n")), std::set<std::string>());
  EXPECT_EQ(differing(one, of_file("c.csv", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n")), std::set<std::string>{"--mode"});
}

TEST(AgreementTest, NativeKernelsAreThoseOfOneKindOfProcessor) {
  const auto kernels = [](const std::string& name) {
    const auto fingerprint = fingerprint_of(small_setup([&](auto& o) { o.exact_shards = 8, o.exact_kernels = name; }));
    return std::find_if(fingerprint.begin(), fingerprint.end(),
                        [](auto& entry) { return entry.name == "--exact-kernels"; })
        ->value;
  };
  EXPECT_EQ(kernels("avx2"), "avx2");
  EXPECT_EQ(kernels("native"), concat("native of ", processor_name(), " with ", at::get_cpu_capability()));
}

TEST(AgreementTest, ImpliedAndTypedTransformsAreEqual) {
  const auto of_augment = [](const std::string& augment) {
    return fingerprint_of(small_setup([&](auto& o) { o.augment = augment; }));
  };
  EXPECT_EQ(differing(of_augment("shift"), of_augment("shift,normalize")), std::set<std::string>());
  EXPECT_TRUE(differing(of_augment("shift"), of_augment("shift(pad=2)")).contains("--augment"));
}

}  // namespace
}  // namespace penstock
