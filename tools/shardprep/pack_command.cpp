// shardprep pack: packs the splits of a foreign data set.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/number.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/pack/list.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/storage_flags.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string duration_text(double seconds) {
  if (seconds < 60) return printed("%.0f s", seconds);
  return printed("%d:%02d min", static_cast<int>(seconds / 60), static_cast<int>(seconds) % 60);
}

/// How far a packing has come. On a terminal it rewrites one line; elsewhere it writes a line every five seconds. It
/// writes to stderr, because stdout is for results. Shards that an interrupted run left cost no time and do not count.
class ProgressLine {
 public:
  ProgressLine(std::string name, bool is_quiet)
      : name_(std::move(name)), is_quiet_(is_quiet), is_terminal_(isatty(STDERR_FILENO) == 1) {}

  void show(const PackProgress& progress) {
    constexpr double kLogEverySeconds = 5;
    if (is_quiet_ || progress.seconds <= 0) return;
    if (!is_terminal_ && progress.seconds - last_shown_s_ < kLogEverySeconds) return;
    last_shown_s_ = progress.seconds;
    const double rate = static_cast<double>(progress.done_count - progress.reused_count) / progress.seconds;
    const auto left = static_cast<double>(progress.total_count - progress.done_count);
    const std::string line =
        concat(name_, ": ", grouped(progress.done_count), " of ", grouped(progress.total_count), " samples, ",
               grouped(static_cast<uint64_t>(rate)), "/s, ", rate > 0 ? duration_text(left / rate) + " left" : "");
    std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
    is_line_open_ = is_terminal_;
  }

  /// Writes a line that stays, also if `is_quiet`.
  void say(const std::string& message) {
    finish();
    std::fprintf(stderr, "%s\n", one_line(message).c_str());
  }

  /// Ends the rewritten line.
  void finish() {
    if (is_line_open_) std::fputs("\r\033[K", stderr);
    is_line_open_ = false;
  }

 private:
  std::string name_;
  bool is_quiet_, is_terminal_;
  bool is_line_open_ = false;
  double last_shown_s_ = 0;
};

struct PackArguments {
  PackOptions options;
  std::string splits = "train";  // one or several, separated by commas
  std::vector<std::string> plugins;
  StorageFlags storage;
  std::vector<std::string> inputs;
  std::string output, on_corrupt = "fail", part, list, codebook;
  bool is_quiet = false, has_split = false;
};

/// The splits named in `text`. All names are checked before the first split is packed.
std::vector<std::string> parse_splits(const std::string& text) {
  std::vector<std::string> names = split(text, ','), known{"train", "test", "all"};
  for (auto name = names.begin(); name != names.end(); ++name) {
    *name = split_of_name(*name);
    if (std::find(known.begin(), known.end(), *name) == known.end())
      throw config_error(concat("--split: ", unknown_name("split", *name, known)));
    if (std::find(names.begin(), name, *name) != name)
      throw config_error(concat("--split: is ", in_quotes(text), "; expected each split only once"));
  }
  return names;
}

std::string skipped_file(const fs::path& folder) { return (folder / kSkippedFile).string(); }

/// "2/8": the part of index 2 of 8.
PackPart parse_part(const std::string& text) {
  const auto numbers = split(text, '/');
  if (numbers.size() == 2) {
    const auto index = parse_number<int>(numbers[0]), count = parse_number<int>(numbers[1]);
    if (index && count && *index >= 0 && *index < *count) return {*index, *count};
  }
  throw config_error(concat("--part: is ", in_quotes(text), "; expected I/N with I from 0 to N - 1, such as 0/8"));
}

/// Packs, and shows on stderr the progress and, at the end, the first pictures that were skipped. Returns the last
/// progress. An error is one line, which counts them and has the first. `listed`: the source, where it is one of a
/// list; otherwise null.
PackProgress pack_aloud(const PackOptions& options, const Source* listed, ProgressLine& line) {
  PackProgress last;
  uint64_t skipped_count = 0;
  std::vector<std::string> skipped;
  const auto show = [&](const PackProgress& progress) {
    for (const auto& message : progress.skipped)
      if (++skipped_count <= Problems::kMaxLines) skipped.push_back(message);
    line.show(last = progress);
  };
  try {
    if (listed != nullptr)
      pack(*listed, options.source, options, show);
    else
      pack(options, show);
  } catch (const Error& error) {
    line.finish();  // so that the error message begins a new line
    if (skipped_count == 0) throw;
    throw Error(error.kind(), concat(error.what(), "; before it ", count_text(skipped_count, "broken picture"),
                                     skipped_count == 1 ? " was" : " were", " skipped, first ", skipped.front()));
  } catch (...) {
    line.finish();
    throw;
  }
  for (const auto& message : skipped) line.say("skipped: " + message);
  if (skipped_count > skipped.size())
    line.say(concat("skipped: ... and ", grouped(skipped_count - skipped.size()), " more; all are in ",
                    skipped_file(options.output / options.split)));
  for (const auto& note : last.notes) line.say("note: " + note);
  line.finish();
  return last;
}

void print_summary(const fs::path& folder, const PackProgress& last) {
  const Manifest manifest = read_manifest(folder);
  uint64_t byte_count = 0;
  for (const auto& shard : manifest.shards) byte_count += shard.byte_count;
  std::string notes;
  if (last.reused_count > 0) notes += ", " + grouped(last.reused_count) + " of them packed before an interruption";
  if (manifest.warned_count > 0) notes += ", " + warned_text(manifest.warned_count);
  if (manifest.transcoded_count > 0)
    notes += ", " + count_text(manifest.transcoded_count, "JPEG") + " transcoded (same pixels, other bytes)";
  if (last.ignored.count > 0) notes += ", " + last.ignored.text();
  if (last.skipped_count > 0)
    notes += concat(", ", count_text(last.skipped_count, "broken picture"), " skipped, see ", skipped_file(folder));
  std::printf("%s: %s of %s in %s, %s, %.1f s%s\n", folder.c_str(), count_text(manifest.sample_count, "sample").c_str(),
              count_text(manifest.class_names.size(), "class", "classes").c_str(),
              count_text(manifest.shards.size(), "shard").c_str(), byte_text(byte_count).c_str(), last.seconds,
              notes.c_str());
  if (manifest.class_names.size() == 1) {
    std::printf("%s: all samples are of one class, %s; for labels, give each class's pictures a folder of their own\n",
                folder.c_str(), one_line(manifest.class_names.front()).c_str());
  }
}

void print_part(const fs::path& folder, const PackPart& part, const PackProgress& last) {
  const bool was_there = last.reused_count == last.total_count;
  std::printf(
      "%s: part %d/%d: %s, %s%s\n", folder.c_str(), part.index, part.count,
      count_text(last.done_count - last.skipped_count, "sample").c_str(),
      was_there ? "finished already" : concat(std::lround(last.seconds * 10) / 10.0, " s").c_str(),
      last.skipped_count > 0 ? concat(", ", count_text(last.skipped_count, "broken picture"), " skipped").c_str() : "");
}

void pack_split(const PackOptions& options, const Source* listed, bool is_quiet) {
  const fs::path folder = options.output / options.split;
  ProgressLine line(options.part ? concat(folder.string(), " part ", options.part->index) : folder.string(), is_quiet);
  const PackProgress last = pack_aloud(options, listed, line);
  if (is_quiet) return;
  if (options.part)
    print_part(folder, *options.part, last);
  else
    print_summary(folder, last);
}

/// Packs what a list names, under the name of its source.
void pack_list(PackOptions options, const PackArguments& arguments) {
  const ListHead head = read_list_head(arguments.list);
  if (!options.source.empty() && parse_spec(SourceKind::kName, options.source).text() != head.source)
    throw config_error(concat("--source: is ", in_quotes(options.source), " with a list of ", head.source,
                              "; expected that one, or no --source"));
  if (arguments.has_split && (options.split != head.split))
    throw config_error(concat("--split: is ", in_quotes(arguments.splits), " with a list of split ", head.split,
                              "; expected that one, or no --split"));
  options.source = head.source;
  options.split = head.split;
  options.packed_next.clear();
  check_pack_options(options);  // before a long list is read
  const auto source = read_list(arguments.list, options.input);
  pack_split(options, source.get(), arguments.is_quiet);
}

int run_pack(const PackArguments& arguments) {
  PackOptions options = arguments.options;
  if (arguments.on_corrupt != "fail" && arguments.on_corrupt != "skip")
    throw config_error(concat("--on-corrupt is ", in_quotes(arguments.on_corrupt), "; expected fail or skip"));
  options.skip_corrupt = arguments.on_corrupt == "skip";
  options.storage = arguments.storage.options();
  if (!arguments.inputs.empty()) options.input = arguments.inputs.front();
  for (size_t i = 1; i < arguments.inputs.size(); ++i) options.more_inputs.emplace_back(arguments.inputs[i]);
  options.output = arguments.output;
  if (!arguments.part.empty()) options.part = parse_part(arguments.part);
  options.codebook = arguments.codebook;
  if (options.source.empty() && arguments.list.empty())
    throw config_error(concat("pack: no --source; expected one, or --list FILE"));
  const auto splits = parse_splits(arguments.splits);
  if (!arguments.list.empty()) {
    if (!options.more_inputs.empty())
      throw config_error(
          concat("--input: is given ", options.more_inputs.size() + 1, " times with --list; expected it once"));
    if (splits.size() == 1) options.split = splits[0];
    pack_list(options, arguments);
    return 0;
  }
  options.packed_next = splits;
  if (splits.size() > 1) {  // a problem with the second split must not show only after the first is packed
    for (const auto& name : splits) {
      options.split = name;
      check_packing(options);
    }
  }
  for (const auto& name : splits) {
    options.packed_next.erase(options.packed_next.begin());
    options.split = name;
    pack_split(options, nullptr, arguments.is_quiet);
  }
  return 0;
}

}  // namespace

Command pack_command(CLI::App& app) {
  auto* command = app.add_subcommand("pack", "pack a data set from another format into OUT/<split>");
  const auto arguments = std::make_shared<PackArguments>();  // lives as long as the parser's pointers to it
  auto& options = arguments->options;
  options.source.clear();
  command->add_option("--source", options.source, "format of the input, one of:" + help_lines<SourceRegistry>());
  command->add_option("--list", arguments->list,
                      "the samples that shardprep list has written to this file, in place of --source and --split");
  add_plugin_option(*command, arguments->plugins);
  command
      ->add_option("--input", arguments->inputs,
                   "folder of the input, or its list; the flag may be given several times, and the samples then come "
                   "one input after the other. Embedded sources such as digits need none")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option(
          "--split", arguments->splits,
          "split to pack: train, test (or val, another name of it) or all; or several, separated by commas. All "
          "splits in OUT have the same classes: pack train first, or several in one call")
      ->capture_default_str();
  command
      ->add_option("--out", arguments->output,
                   "folder for the packed data set, or an address of s3:// or gs:// (docs/FAR.md)")
      ->required();
  command->add_option("--shards", options.shard_count, "number of files over which the samples are spread")
      ->capture_default_str();
  command
      ->add_option("--shuffle-seed", options.shuffle_seed,
                   "shuffle the samples inside each shard with this seed (default: in the order of their ids)")
      ->type_name("UINT");
  command->add_option("--jobs", options.jobs, "threads that pack; 0: one per core")->capture_default_str();
  command
      ->add_option("--part", arguments->part,
                   "pack only part I of N (0/N to N-1/N), which is some of the shards, into OUT/.<split>.parts; on any "
                   "machine that sees OUT. shardprep merge OUT makes the data set of all parts")
      ->type_name("I/N");
  command->add_option("--codebook", arguments->codebook,
                      "file with the codebook for coefficients, from shardprep list --codebook (default: it is trained "
                      "on 256 of the pictures)");
  command->add_flag("--force", options.force, "replace OUT/<split> if it exists, once the new one is complete");
  command
      ->add_option("--on-corrupt", arguments->on_corrupt,
                   "what to do with a picture that cannot be decoded. fail: stop with exit code 4; skip: leave it out, "
                   "count it, and write its path and the reason to OUT/<split>/skipped.jsonl")
      ->capture_default_str();
  add_storage_flags(*command, arguments->storage);
  command->add_flag("--quiet", arguments->is_quiet, "print no progress and no summary");
  return {command, [command, arguments] {
            arguments->has_split = command->count("--split") > 0;
            return run_pack(*arguments);
          }};
}

}  // namespace penstock
