// The command line of `train`: one flag an option, grouped for --help.
#include "tools/train/flags.h"

#include <torch/version.h>

#include <cctype>

#include "augment/transform.h"
#include "core/text.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/train/earlier_flags.h"
#include "train/run/program.h"

namespace penstock {
namespace {

void add_data_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Data";
  app.add_option(
         "--data", o.data,
         concat(
             "a packed data set's folder, or what is packed into --cache once: SOURCE:DIR or "
             "SOURCE(KEY=VALUE,...):DIR, as image-folder:photos, or without DIR an embedded one, as digits(count=500); "
             "sources: ",
             join(SourceRegistry::names()), ". A folder of a source's name wins when it is a packed data set"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--split", o.split, "split to train on; `test` is evaluated on")->capture_default_str()->group(group);
  app.add_option("--augment", o.augment,
                 "transforms, as 'affine(degrees=10),flip(p=0.5)'; without `normalize` the data set's statistics are "
                 "used; of" +
                     help_lines<TransformRegistry>())
      ->group(group);
  app.add_option("--eval-augment", o.eval_augment,
                 "transforms of the evaluation (default: resize, center-crop and normalize of --augment; for "
                 "random-resized-crop(size=224) resize(size=256),center-crop(size=224), other sizes in that ratio)")
      ->group(group);
  app.add_option("--shuffle", o.shuffle,
                 "global: any rank reads any shard; rank-local: rank r reads shards r, r+W, ...; none")
      ->capture_default_str()
      ->group(group);
  app.add_option("--tail", o.tail, "the epoch's last batch: pad it with rows of weight 0, or drop it")
      ->capture_default_str()
      ->group(group);
  app.add_option("-b,--batch-size", o.batch_size, "samples a step, of all ranks together")
      ->capture_default_str()
      ->group(group);
  app.add_option("-j,--workers", o.workers,
                 "threads a rank that make batches; 0: the training thread does (default: 1, on CUDA up to 8)")
      ->group(group);
  app.add_option("--prefetch", o.prefetch, "batches made ahead")->capture_default_str()->group(group);
  app.add_flag("--resident", o.is_resident, "keep the pixels on the device and render the batches there");
  app.get_option("--resident")->group(group);
  app.add_option("--layout", o.layout,
                 "what the loader makes: f32, or u8 that the device normalises (a quarter of the bytes)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--decode", o.decode,
                 "JPEGs: auto, index (coefficients or seek index), region or full (libjpeg-turbo); the same pixels")
      ->capture_default_str()
      ->group(group);
  app.add_option("--dct-scale", o.dct_scale, "auto: decode JPEGs smaller where the crop is reduced anyway; off")
      ->capture_default_str()
      ->group(group);
  app.add_option("--cache", o.cache, "where sources are packed (default: ${XDG_CACHE_HOME:-~/.cache}/penstock)")
      ->group(group);
}

void add_model_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Model and optimisation";
  app.add_option("-a,--arch", o.arch, join(arch_names()))->capture_default_str()->group(group);
  app.add_option("--pretrained", o.pretrained, "start from these weights (safetensors, plain parameter names)")
      ->group(group);
  app.add_flag("--new-head", o.has_new_head,
               "of --pretrained take all but the last stage, which starts anew for the classes of --data");
  app.get_option("--new-head")->group(group);
  app.add_option("--freeze", o.freeze,
                 "layers that are not trained, as stem,layer1 or conv1: no gradient, no update, and their BatchNorm "
                 "keeps its statistics")
      ->group(group);
  app.add_option("--layer-lr", o.layer_rates,
                 "factors of --lr by layer, as layer4=0.1,fc=10; 1 for the others. A layer is a stage of the model or "
                 "a module of it")
      ->group(group);
  app.add_option("--epochs", o.epochs, "passes over the data")->capture_default_str()->group(group);
  app.add_option("--lr,--learning-rate", o.learning_rate, "learning rate")->capture_default_str()->group(group);
  app.add_option("--schedule", o.schedule,
                 "of the learning rate: cosine to 0, step (a tenth after 1/2 and 3/4), constant")
      ->capture_default_str()
      ->group(group);
  app.add_option("--momentum", o.momentum, "of SGD")->capture_default_str()->group(group);
  app.add_option("--wd,--weight-decay", o.weight_decay, "weight decay")->capture_default_str()->group(group);
  app.add_option("--seed", o.seed, "of initial weights, order and augmentation")->capture_default_str()->group(group);
}

void add_device_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Devices and ranks";
  app.add_option("--device", o.device, "auto, cpu or cuda")->capture_default_str()->group(group);
  app.add_option("--gpu", o.gpu, "index of the visible GPU to use, for one rank")->group(group);
  app.add_option("--threads", o.threads,
                 "LibTorch's intra-op threads a rank (default: a rank's cores less the worker's; on CUDA 1)")
      ->group(group);
  app.add_option("--mode", o.mode, join(mode_names()))->capture_default_str()->group(group);
  app.add_option("--nproc", o.nproc,
                 "ranks to start here (default: 1 in mode single, otherwise one a visible GPU, 2 without any)")
      ->group(group);
  app.add_option("--world-size", o.world_size, "ranks of all machines; with --rank this process is one of them")
      ->group(group);
  app.add_option("--rank", o.rank, "this process's rank, when no launcher (torchrun, Slurm, Open MPI) says it")
      ->group(group);
  app.add_option("--dist-url", o.dist_url,
                 "where rank 0 listens: tcp://HOST:PORT; on the address of HOST alone, on every interface when HOST is "
                 "0.0.0.0, ::, or a name of several addresses or of a loopback one")
      ->group(group);
  app.add_option("--dist-backend", o.dist_backend, "auto (nccl on CUDA, gloo on the CPU), nccl or gloo")
      ->capture_default_str()
      ->group(group);
  app.add_option("--interface", o.interface,
                 "network interface, as eth0, that ranks listen on and talk over; nothing listens on any other")
      ->group(group);
  app.add_option("--timeout", o.timeout_seconds,
                 "seconds that a rank waits for the others in a step, which lasts seconds at most but for rank 0's "
                 "checkpoints; five times that until all are there, since the machines of a job start minutes apart")
      ->capture_default_str()
      ->group(group);
}

void add_emulation_flags(CLI::App& app, std::string& step, std::string& load) {
  const auto group = "Emulation, to study a loader beside a device that is not there (results say `emulated`)";
  app.add_option("--emulate-step", step,
                 "a wait of this long, as 1.2ms, instead of forward, backward and update; takes no processor")
      ->group(group);
  app.add_option("--emulate-load", load, "processor time to waste on every sample, as 100us")->group(group);
}

void add_run_flags(CLI::App& app, TrainOptions& o, std::vector<std::string>& save_every) {
  const auto group = "Run";
  app.add_option("--out", o.out,
                 "the run's folder: metrics, checkpoints, weights (default: runs/ARCH-MODE-TIME; with --resume the "
                 "checkpoint's). "
                 "An earlier run in it is replaced, unless --resume goes on with it")
      ->group(group);
  app.add_option("--save-every", save_every,
                 "checkpoint every 'N steps' or 'N epochs'; 0: at the end only (default: 1 epoch)")
      ->expected(1, 2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  app.add_option(
         "--resume", o.resume,
         "go on from this checkpoint, or a run's folder's last one, with the data, model, order and optimisation that "
         "its run had; flags given win")
      ->group(group);
  app.add_flag(
      "-e,--evaluate", o.only_evaluates,
      "only evaluate what --resume, --pretrained or OUT/model.safetensors holds; OUT/evaluation.csv then has a "
      "line for each sample, OUT/evaluation.json top-1, top-5 and confusion of each class");
  app.get_option("--evaluate")->group(group);
  app.add_flag("--eval-at-end{false}", o.evaluates_each_epoch, "evaluate behind the last epoch only")->group(group);
  app.add_option("-p,--print-freq", o.print_freq,
                 "steps between two lines of metrics.jsonl; reading the loss waits for the device")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--profile", o.profile_steps,
         "write OUT/trace.json (ui.perfetto.dev opens it): STEPS steps, 20 without a number, from the tenth on: "
         "phases, loader workers and operators of every rank")
      ->expected(0, 1)
      ->default_str("20")
      ->option_text("[STEPS]")
      ->group(group);
}

/// `--save-every 100 steps` arrives as two words, "100 steps" as one.
SaveEvery save_every_of(const std::vector<std::string>& words) {
  const bool has_unit =
      words.size() == 2 && !words[1].empty() && std::isalpha(static_cast<unsigned char>(words[1][0])) != 0;
  if (words.size() > 1 && !has_unit) throw config_error("--save-every: is given more than once; expected it once");
  return parse_save_every(join(words, " "));
}

/// What the flags are read into: options, and texts that become options.
struct FlagValues {
  TrainOptions options;
  std::vector<std::string> save_every;
  std::string emulated_step, emulated_load;
};

void add_flags(CLI::App& app, FlagValues& values) {
  app.get_formatter()->column_width(34);
  add_data_flags(app, values.options);
  add_model_flags(app, values.options);
  add_device_flags(app, values.options);
  add_run_flags(app, values.options, values.save_every);
  add_plugin_option(app, values.options.plugins)->group("Run");
  add_emulation_flags(app, values.emulated_step, values.emulated_load);
}

/// -1 or 0 means "auto" or "not given" inside only: whoever types it gets the message of every other number that is too
/// small.
void check_typed(const CLI::App& app, const TrainOptions& options) {
  const auto check_least = [&](const char* flag, int value, int least) {
    if (app.count(flag) > 0 && value < least)
      throw config_error(concat(flag, " is ", value, "; expected ", least, " or more"));
  };
  check_least("--workers", options.workers, 0);
  check_least("--gpu", options.gpu, 0);
  check_least("--threads", options.threads, 1);
  check_least("--nproc", options.nproc, 1);
  check_least("--world-size", options.world_size, 1);
  check_least("--rank", options.rank, 0);
  // Ranks are started with the typed flags and the folder: without this they would be given the flag twice.
  if (app.count("--out") > 0 && options.out.empty())
    throw config_error("--out is \"\"; expected a folder, or no --out");
  constexpr int64_t kMaxProfileSteps = 1000;  // a step of a large model has thousands of operators
  if (app.count("--profile") > 0 && (options.profile_steps < 1 || options.profile_steps > kMaxProfileSteps))
    throw config_error(concat("--profile is ", options.profile_steps, "; expected 1 to ", kMaxProfileSteps, " steps"));
}

/// What an earlier run was started with, before the flags that are typed now and win.
void read_earlier_flags(std::vector<std::string> words, const std::string& program, FlagValues& values) {
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  CLI::App app("", "train");
  add_flags(app, values);
  parse_command_line(app, static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace

std::vector<std::string> train_flag_names() {
  FlagValues values;
  CLI::App app("", "train");
  add_flags(app, values);
  return flag_names(app);
}

TrainOptions parse_flags(int argc, char** argv) {
  const auto earlier = earlier_flags({argv, argv + argc});
  load_plugins(earlier, TORCH_VERSION);  // those that were typed are loaded already
  FlagValues values;
  CLI::App app(
      "Trains an image model. With nothing else: LeNet on embedded digits. Exit codes: 0, 2 options (and a run that "
      "diverges, and ranks whose options or data differ), 3 files, 4 corrupt data, 5 devices and other ranks (one that "
      "was killed, hangs or did not come), 128 + the signal that stopped it: SIGINT, SIGTERM and SIGHUP save a "
      "checkpoint first, a second SIGINT ends at once.",
      "train");
  add_flags(app, values);
  app.footer("train study --help: many runs with other workers, modes and ranks, in one table.");
  auto& options = values.options;
  read_earlier_flags(earlier, argv[0], values);
  parse_command_line(app, argc, argv);
  options.resume = checkpoint_of(options.resume);
  if (!values.save_every.empty()) options.save_every = save_every_of(values.save_every);
  options.emulated_step_ns = parse_duration_ns("--emulate-step", values.emulated_step);
  options.emulated_load_ns = parse_duration_ns("--emulate-load", values.emulated_load);
  check_typed(app, options);
  return options;
}

}  // namespace penstock
