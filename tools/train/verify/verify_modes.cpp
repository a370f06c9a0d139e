// train verify-modes: its flags, and the pairs one after the other.
#include "tools/train/verify/verify_modes.h"

#include <iostream>

#include "core/error.h"
#include "core/text.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/train/flags/lists.h"
#include "tools/train/verify/table.h"
#include "train/launch/environment.h"
#include "train/run/program.h"

namespace penstock {
namespace {

struct Flags {
  VerifyOptions options;
  bool prints_json = false, localises = false;
};

std::vector<Hosting> parse_hostings(const std::string& text) {
  std::vector<Hosting> hostings;
  for (const auto& part : split(text, ','))
    hostings.push_back(choice<Hosting>(
        "--hosting", part,
        {{"threads", Hosting::kThreads}, {"processes", Hosting::kProcesses}, {"sockets", Hosting::kSockets}}));
  return hostings;
}

Flags parse(int argc, char** argv) {
  Flags flags;
  auto& options = flags.options;
  std::string modes, archs, ranks = "2,4", hosting, device = "cpu";
  std::vector<std::string> plugins;
  CLI::App app(
      "Trains with each mode and with `single` on embedded digits and says how far apart they end. fp64: parameters, "
      "buffers, the optimiser's state, the average, losses and an evaluation after --steps steps in float64, with a "
      "checkpoint in the middle from which the run goes on, below 1e-12. one-step: the gradient of one step in "
      "float32, "
      "below 1e-6. Both bounds are higher for a model whose own rounding is. compressed: a gradient, below what the "
      "mode "
      "states. bitwise: no difference with --exact 8, after a fifth of --steps; models with LibTorch's dropout are "
      "compared in this alone. evaluation: the ranks' evaluation, and that of `single` from their checkpoint, where a "
      "mode is not to train what `single` trains. Without --arch and the flags of the update that follow it, a table "
      "of "
      "models and flags in docs/VERIFYING.md is trained. Takes about four minutes on two cores; exit code 1 if a pair "
      "differs.",
      "train verify-modes");
  app.get_formatter()->column_width(34);
  app.add_option("--modes", modes,
                 concat("modes to verify, separated by commas (default: all of ", join(mode_names()),
                        ", without keys and with some that matter)"));
  app.add_option("-a,--arch", archs, concat("models, separated by commas: ", join(arch_names())));
  app.add_option("--steps", options.step_count, "steps of the class fp64")->capture_default_str();
  app.add_option("--nproc", ranks, "numbers of ranks; a mode that takes none of them runs with its own")
      ->capture_default_str();
  app.add_option(
      "--hosting", hosting,
      "what ranks are: threads, processes, or sockets, which are processes that share no memory, as on several "
      "machines; separated by commas (default: with two ranks one of them for each class, otherwise threads; "
      "with --device cuda processes)");
  app.add_option("-b,--batch-size", options.batch_size, "samples per step, over all ranks")->capture_default_str();
  app.add_option("--loss", options.loss, concat("what is trained. Losses:", loss_lines()))->capture_default_str();
  app.add_option("--optimizer", options.optimizer, "how a gradient changes the weights, as in a run")
      ->capture_default_str();
  app.add_option("--average", options.average,
                 "which mean of the weights is kept, as in a run: ema(decay=0.9,every=2)");
  app.add_option("--layer-lr", options.layer_lr, "factors of the learning rate by layer, as in a run: fc1=0.5");
  app.add_option("--bias-decay", options.bias_decay,
                 "the weight decay of biases and norms; that of the others is 0.001");
  app.add_option("--clip-grad", options.clip, "how gradients are clipped: norm=1.0, value=0.5 or agc=0.01");
  app.add_option("--device", device, "where all ranks compute: cpu, or cuda: GPU 0, which they share")
      ->capture_default_str();
  app.add_flag("--localise", flags.localises,
               "train one pair of each mode that differs again, and say in which step, rank, micro-batch and tensor, "
               "and after which operation, it first differs");
  app.add_flag("--json", flags.prints_json, "print the results as JSON, at the end");
  add_plugin_option(app, plugins);
  parse_command_line(app, argc, argv);

  if (app.count("--modes") > 0) options.modes = parse_modes(modes);
  if (app.count("--arch") > 0) options.archs = parse_archs(archs);
  options.ranks = parse_counts("--nproc", ranks, 1, "2,4");
  if (app.count("--hosting") > 0) options.hostings = parse_hostings(hosting);
  options.is_on_gpu = choice<bool>("--device", device, {{"cpu", false}, {"cuda", true}});
  // Threads that share a GPU cannot run every mode (make_thread_comms()).
  if (options.is_on_gpu && app.count("--hosting") == 0) options.hostings = {Hosting::kProcesses};
  if (app.count("--bias-decay") > 0 && options.bias_decay < 0)
    throw config_error(concat("--bias-decay is ", options.bias_decay, "; expected 0 or more and less than inf"));
  if (options.step_count < 2) throw config_error(concat("--steps is ", options.step_count, "; expected 2 or more"));
  constexpr int64_t kMostRows = 65'536;
  if (options.batch_size < 1 || options.batch_size > kMostRows)
    throw config_error(concat("--batch-size is ", options.batch_size, "; expected 1 to ", kMostRows));
  return flags;
}

}  // namespace

int run_verify_modes(int argc, char** argv) {
  const Flags flags = parse(argc, argv);
  if (const auto launched = rank_from_environment(""))
    throw config_error(concat("verify-modes: started by ", launched->launcher, "; expected to be started by hand"));
  const Matrix matrix = matrix_of(flags.options);
  const VerdictTable table(matrix.pairs);
  // With --json stdout has the JSON alone; the table goes to stderr.
  std::ostream& said = flags.prints_json ? std::cerr : std::cout;
  said << table.head() << std::endl;
  std::vector<Verdict> verdicts;
  verify(matrix.pairs, flags.options, [&](const Verdict& verdict) {
    said << table.line(verdict) << std::endl;
    verdicts.push_back(verdict);
  });
  for (const auto& line : left_out_lines(matrix.left_out)) said << line << '\n';
  for (const auto& line : caught_lines(verdicts)) said << line << '\n';
  std::vector<Localised> places;
  if (flags.localises)
    localise(verdicts, flags.options, [&](const Localised& place) {
      said << place_line(place) << std::endl;
      places.push_back(place);
    });
  said << result_line(verdicts) << std::endl;
  if (flags.prints_json) std::cout << json_text(verdicts, matrix.left_out, places) << std::endl;
  for (const auto& verdict : verdicts)
    if (!verdict.holds()) return 1;
  return 0;
}

}  // namespace penstock
