// The command line of `train`: one flag per option, grouped for --help.
#include "tools/train/flags/flags.h"

#include <torch/version.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "tools/cache_flags.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/train/flags/data_flags.h"
#include "tools/train/flags/earlier_flags.h"
#include "tools/train/flags/mode_flags.h"
#include "tools/train/flags/recipe_flags.h"
#include "train/run/program.h"

namespace penstock {
namespace {

constexpr const char* kConfigHelp =
    "take the flags in this file: the options.json of a run, what --print-config prints, or a JSON object or FILE.toml "
    "with some of their keys. Flags that are typed replace them, also those of a --recipe. Not taken: out, force, "
    "repack, resume, rank, world-size and dist-url, so that a run that is repeated has a folder of its own and starts "
    "from the "
    "beginning";

void add_model_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Model and optimisation";
  app.add_option("-a,--arch", o.arch, concat("model to train: ", join(arch_names())))
      ->capture_default_str()
      ->group(group);
  app.add_option("--pretrained", o.pretrained,
                 "safetensors file with the weights to start from, under the names of the model's parameters (those of "
                 "torchvision for ResNets)")
      ->group(group);
  app.add_flag(
      "--new-head", o.has_new_head,
      "take all weights of --pretrained but those of the last block, which starts from random ones for the classes of "
      "--data");
  app.get_option("--new-head")->group(group);
  app.add_option("--freeze", o.freeze,
                 "layers that are not trained, for example stem,layer1: they get no gradient and no update, and their "
                 "BatchNorm keeps its running statistics. A layer is a block or a module of the model")
      ->group(group);
  app.add_option("--layer-lr", o.layer_rates,
                 "factors by which --lr is multiplied in single layers, for example layer1=0.1,layer4=0.5; it is 1 in "
                 "the others. A "
                 "layer is a block or a module of the model")
      ->group(group);
  app.add_option(
         "--epochs", o.epochs,
         "passes over the data, in all: with --resume the earlier ones count too; 0: save the initial weights and "
         "evaluate them")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--optimizer", o.optimizer,
         concat("how gradients change the parameters, for example 'adamw(beta2=0.95)'. Optimisers:", optimizer_lines()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--lr,--learning-rate", o.learning_rate,
                 "learning rate (default: that of the optimiser, 0.05 with sgd)")
      ->group(group);
  app.add_option(
         "--schedule", o.schedule,
         "how the learning rate changes in the run. cosine: from --lr to 0; step: a tenth of --lr after half "
         "of the steps, a hundredth after three quarters; constant; triangular(start=0,peak=0.5,end=0): from "
         "the factor start up to --lr at the share peak of the steps, and down to the factor end, at which the share "
         "rest of the steps stays; onecycle(peak=0.3,divide=25,final=10000): the same with half cosines, from --lr / "
         "divide and down to "
         "--lr / divide / final; polynomial(power=1,floor=0): down to the factor floor; cosine(floor=0); "
         "step(every=30,gamma=0.1): times gamma after so many epochs; plateau(factor=0.1,patience=10): times factor "
         "when evaluations get no better. All but triangular and onecycle may begin with warmup=EPOCHS, "
         "warmup-start=0.01, warmup-kind=linear|constant, warmup-inside=false; per=step|epoch: how often it changes")
      ->capture_default_str()
      ->group(group);
  app.add_option("--momentum", o.momentum, "momentum of sgd")->capture_default_str()->group(group);
  app.add_option("--wd,--weight-decay", o.weight_decay, "weight decay")->capture_default_str()->group(group);
  app.add_option("--seed", o.seed, "seed of the initial weights, the order and the augmentation")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--exact", o.exact_shards,
         "train the same bits in every mode, with any number of ranks that divides SHARDS (8 if no number is "
         "given): a batch is computed in SHARDS pieces, whose gradients are added in a fixed order, by one "
         "thread per rank and the kernels of --exact-kernels; SHARDS is a power of two that divides the batch; 0: off")
      ->expected(0, 1)
      ->default_str("8")
      ->option_text("[SHARDS]")
      ->group(group);
  app.add_option("--exact-kernels", o.exact_kernels,
                 "with --exact: avx2 has the same bits on every processor with AVX2; native takes the kernels of this "
                 "processor, which are faster if it has AVX-512, and other processors may have other bits")
      ->capture_default_str()
      ->group(group);
}

void add_device_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Devices and ranks";
  app.add_option("--device", o.device, "cpu, cuda, or auto: cuda if a GPU is visible, otherwise cpu")
      ->capture_default_str()
      ->group(group);
  app.add_option("--gpu", o.gpu,
                 "index, among the visible GPUs, of the one that this rank uses (default: the number of the rank on "
                 "its machine)")
      ->group(group);
  app.add_option(
         "--threads", o.threads,
         "LibTorch's intra-op threads per rank (default: one less than the rank has cores, because of the worker; with "
         "CUDA 1)")
      ->group(group);
  app.add_option("--mode", o.mode,
                 concat("how steps are spread over ranks, for example 'pipeline(micro-batches=8,cut=fc1)'. Modes:",
                        mode_lines()))
      ->capture_default_str()
      ->group(group);
  app.add_option_function<std::string>(
         "--print-schedule", [&o](const std::string& form) { choose_schedule_form(o, form); },
         "draw when each rank of --mode pipeline or mp does what, or print it as PyTorch's CSV, and end; needs no data")
      ->expected(0, 1)
      ->default_str("drawing")
      ->option_text("[csv]")
      ->group(group);
  app.add_option(
         "--nproc", o.nproc,
         "ranks to start on this machine (default: 1 in mode single; otherwise one per visible GPU, or 2 on the CPU)")
      ->group(group);
  app.add_option(
         "--hostfile", o.hostfile,
         "file with lines `worker-0 slots=4`: start a rank for each slot of each host, over ssh, in this folder "
         "and with this program there")
      ->group(group);
  app.add_option("--include", o.include, "hosts and slots of --hostfile to use: 'worker-0@worker-1:0,2'")->group(group);
  app.add_option("--exclude", o.exclude, "hosts and slots of --hostfile not to use")->group(group);
  app.add_option(
         "--max-restarts", o.max_restarts,
         "how often to start all ranks again, from the last whole checkpoint, after one was killed or a machine "
         "has failed")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--dry-run", o.only_prints_commands, "print the commands that would start the ranks, and end");
  app.get_option("--dry-run")->group(group);
  app.add_option("--world-size", o.world_size,
                 "number of ranks on all machines; with --rank, this process is one of them")
      ->group(group);
  app.add_option("--rank", o.rank, "rank of this process, if it was not started by torchrun, Slurm or Open MPI")
      ->group(group);
  app.add_option("--dist-url", o.dist_url,
                 "where ranks meet: tcp://HOST:PORT; file:///PATH, a file that all machines see and that is not there "
                 "yet, into "
                 "which rank 0 writes where it listens, on loopback only if all ranks are on its machine; or env://, "
                 "MASTER_ADDR and MASTER_PORT. With tcp rank 0 "
                 "listens on the address of HOST only; on every interface if HOST is "
                 "0.0.0.0 or ::, or a name that stands for several addresses or for a loopback address")
      ->group(group);
  app.add_option("--dist-backend", o.dist_backend,
                 "library by which ranks communicate: nccl, gloo, or auto: nccl with CUDA; on the CPU gloo, and memory "
                 "that ranks share where all of them are on one machine")
      ->capture_default_str()
      ->group(group);
  app.add_option("--hosting", o.hosting,
                 "what the ranks of --nproc are: processes, or threads of this process; with CUDA they share one GPU")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--interface", o.interface,
         "network interface, for example eth0, over which ranks communicate; they listen on no other, except that "
         "ranks of one machine meet on its loopback interface. Without it ranks communicate over the interface by "
         "which their machine reaches rank 0")
      ->group(group);
  app.add_option(
         "--timeout", o.timeout_seconds,
         "seconds that a rank waits for the others in a step; before the first step, five times as long, because the "
         "machines of a job start minutes apart and ranks build their models. A step takes seconds at most, unless "
         "rank 0 writes a checkpoint in it")
      ->capture_default_str()
      ->group(group);
}

void add_emulation_flags(CLI::App& app, std::string& step, std::string& load, std::string& network, std::string& link) {
  const auto group = "Emulation of a device, a loader or a network that is not there (results are marked `emulated`)";
  app.add_option(
         "--emulate-step", step,
         "a device that takes this time, for example 1.2ms, for forward, backward and update of a whole batch: each "
         "rank waits for its share, as --mode divides it, which uses no processor time; nothing is learned, and what "
         "ranks send each other has its true size")
      ->group(group);
  app.add_option("--emulate-load", load,
                 "waste this processor time, for example 100us, on each sample, as a slower loader would")
      ->group(group);
  app.add_option("--sim-net", network,
                 "let whatever ranks tell each other take this delay and its bytes at this rate, for example "
                 "25us,10GB/s, as over a slower network; ranks are on one machine and communicate by gloo")
      ->group(group);
  add_sim_link_flag(app, link)->group(group);
}

void add_run_flags(CLI::App& app, TrainOptions& o, std::vector<std::string>& save_every) {
  const auto group = "Run";
  app.add_option(
         "--out", o.out,
         "folder for metrics, checkpoints and weights (default: runs/ARCH-MODE-TIME; with --resume, the folder of that "
         "run)")
      ->group(group);
  app.add_flag("--force", o.replaces_run,
               "remove the checkpoints and weights of an earlier run in --out; without it a run that does not --resume "
               "them is refused");
  app.get_option("--force")->group(group);
  app.add_option("--save-every", save_every,
                 "how often to save a checkpoint: 'N steps' or 'N epochs'; 0: only at the end (default: 1 epoch)")
      ->expected(1, 2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  app.add_option("--keep", o.keep,
                 "checkpoints to keep besides the best one; with more than 1 also as OUT/checkpoint-step-N.safetensors")
      ->capture_default_str()
      ->group(group);
  app.add_option("--resume", o.resume, kResumeHelp)->group(group);
  app.add_flag(
      "-e,--evaluate", o.only_evaluates,
      "do not train; evaluate the weights in --resume, --pretrained or OUT/model.safetensors. Writes "
      "OUT/evaluation.csv, with a line for each sample, and OUT/evaluation.json, with top-1, top-5 and confusion of "
      "each class");
  app.get_option("--evaluate")->group(group);
  app.add_flag("--print-config", o.prints_config,
               "print the flags of this run as a file for --config, before anything is opened, and end");
  app.get_option("--print-config")->group(group);
  app.add_flag("--check", o.only_checks,
               "open and check everything as this run would, train and write nothing but packed data, and end");
  app.get_option("--check")->group(group);
  app.add_flag("--eval-at-end{false}", o.evaluates_each_epoch, "evaluate after the last epoch only, not after each one")
      ->group(group);
  app.add_option("-p,--print-freq", o.print_freq,
                 "steps from one line of metrics.jsonl to the next; reading the loss for it waits for the device")
      ->capture_default_str()
      ->group(group);
  app.add_option("--profile", o.profile_steps,
                 "write OUT/trace.json, which ui.perfetto.dev opens: the phases, loader workers and operators of all "
                 "ranks over STEPS steps (20 if no number is given), from the tenth step on")
      ->expected(0, 1)
      ->default_str("20")
      ->option_text("[STEPS]")
      ->group(group);
  app.add_option_function<std::string>(
         "--predicted-step",
         [&o](const std::string& text) { o.predicted_step_ns = parse_duration_ns("--predicted-step", text); },
         "what `train plan-modes` has said that a step takes: the end of the run says how far off that was")
      ->group(group);
}

/// `--save-every 100 steps` arrives as two words, "100 steps" as one.
SaveEvery save_every_of(const std::vector<std::string>& words) {
  const bool has_unit =
      words.size() == 2 && !words[1].empty() && std::isalpha(static_cast<unsigned char>(words[1][0])) != 0;
  if (words.size() > 1 && !has_unit)
    throw config_error(
        concat("--save-every: is given more than once (", in_quotes(join(words, " ")), "); expected it once"));
  return parse_save_every(join(words, " "));
}

/// What the flags are read into: options, and texts from which options are made.
struct FlagValues {
  TrainOptions options;
  std::vector<std::string> save_every;
  std::string emulated_step, emulated_load, network, link;
  std::string config;  // for the help: with_config() has put its flags into the place of the one that is typed
};

void add_flags(CLI::App& app, FlagValues& values) {
  app.get_formatter()->column_width(34);
  add_data_flags(app, values.options);
  add_model_flags(app, values.options);
  add_recipe_flags(app, values.options);
  add_device_flags(app, values.options);
  add_run_flags(app, values.options, values.save_every);
  app.add_option("--config", values.config, kConfigHelp)->group("Run");
  add_plugin_option(app, values.options.plugins)->group("Run");
  add_emulation_flags(app, values.emulated_step, values.emulated_load, values.network, values.link);
}

/// What depends on which flags were typed. TrainOptions uses -1 and 0 for "auto" and "not given": a user who types them
/// gets the same message as for any other number that is too small.
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
  if (app.count("--lr") > 0 && options.learning_rate < 0)
    throw config_error(concat("--lr is ", options.learning_rate, "; expected 0 or more and less than inf"));
  if (app.count("--momentum") > 0 && options.optimizer->name() != "sgd")
    throw config_error(concat("--momentum is ", options.momentum, " with --optimizer ", options.optimizer,
                              "; expected it with sgd alone"));
  // Ranks are started with the typed flags, and with --out added if OUT is empty: they would then have the flag twice.
  if (app.count("--out") > 0 && options.out.empty())
    throw config_error("--out is \"\"; expected a folder, or no --out");
  constexpr int64_t kMaxProfileSteps = 1000;  // one step of a large model has thousands of operators
  if (app.count("--profile") > 0 && (options.profile_steps < 1 || options.profile_steps > kMaxProfileSteps))
    throw config_error(concat("--profile is ", options.profile_steps, "; expected 1 to ", kMaxProfileSteps, " steps"));
}

/// Reads the flags of an earlier run, or of a recipe. The flags that are typed now are read after them and replace
/// them.
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

TrainOptions options_of(const std::vector<std::string>& words) {
  FlagValues values;
  read_earlier_flags(words, "train", values);
  return values.options;
}

bool is_typed(const std::vector<std::string>& words, const std::string& flag) {
  FlagValues values;
  CLI::App app("", "train");
  add_flags(app, values);
  const auto* option = app.get_option(flag);
  const auto has = [&](const std::string& name, auto is_name) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return is_name(word, name); });
  };
  const auto is_long = [](const std::string& word, const std::string& name) {
    return word == "--" + name || word.starts_with("--" + name + "=");
  };
  const auto is_short = [](const std::string& word, const std::string& name) { return word.starts_with("-" + name); };
  const auto& longs = option->get_lnames();
  const auto& shorts = option->get_snames();
  return std::any_of(longs.begin(), longs.end(), [&](const auto& name) { return has(name, is_long); }) ||
         std::any_of(shorts.begin(), shorts.end(), [&](const auto& name) { return has(name, is_short); });
}

TrainOptions parse_flags(int argc, char** argv) {
  const auto earlier = earlier_flags({argv, argv + argc});
  load_plugins(earlier, TORCH_VERSION);  // main() has loaded those that were typed
  FlagValues values;
  CLI::App app(
      "Trains an image model; without any flags, LeNet on embedded digits. Exit codes: 0 success; 2 wrong options, a "
      "run that diverges, or ranks whose options or data differ; 3 files; 4 corrupt data; 5 devices, memory, threads, "
      "or another rank (it was killed, hangs or did not come); 128 + the number of the signal that stopped the run: "
      "SIGINT, SIGTERM and SIGHUP save a checkpoint first, and a second SIGINT ends the run at once.",
      "train");
  add_flags(app, values);
  app.footer("`train study` compares runs with different workers, modes and ranks; see train study --help.");
  auto& options = values.options;
  refuse_mode_flags({argv + 1, argv + argc}, flag_names(app));
  read_earlier_flags(earlier, argv[0], values);
  read_earlier_flags(typed_recipe({argv, argv + argc}), argv[0], values);
  // The embedded digits, on which `train` runs without flags, are not what any recipe is for.
  if (!typed_value({argv, argv + argc}, "--recipe").empty() && earlier.empty()) options.data.clear();
  const std::string earlier_split = options.split;
  parse_command_line(app, argc, argv);
  check_recipe(app, options);
  if (options.only_evaluates && app.count("--split") > 0) {
    options.evaluated_split = options.split;
    // The pictures are normalised by the statistics of the split that the run was trained on.
    if (!earlier.empty() && app.count("--data") == 0) options.split = earlier_split;
  }
  if (!options.resumes_if_possible()) options.resume = checkpoint_of(options.resume);
  if (!values.save_every.empty()) options.save_every = save_every_of(values.save_every);
  options.emulation = {.step_ns = parse_duration_ns("--emulate-step", values.emulated_step),
                       .load_ns = parse_duration_ns("--emulate-load", values.emulated_load),
                       .network = parse_network("--sim-net", values.network)};
  if (!values.link.empty()) put_behind_link(values.link, options);
  check_typed(app, options);
  if (options.only_evaluates && app.count("--exact") == 0) {  // those of the earlier run, perhaps
    options.exact_shards = 0;
    options.exact_kernels = TrainOptions().exact_kernels;
  }
  return options;
}

}  // namespace penstock
