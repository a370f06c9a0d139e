// The folder of a run: its name, its lock, and removing the files of an earlier run.
#include "train/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/checkpoint/save.h"
#include "train/options/options_file.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOptions = "options.json";

/// Whether a run writes files of this name.
bool is_of_a_run(const std::string& name) {
  for (const char* own : {kOptions, "summary.json", kModelFile, kUnaveragedModelFile, "trace.json", "evaluation.json",
                          "evaluation.csv", kQuarantine})
    if (name == own) return true;
  if (is_checkpoint_name(name)) return true;
  for (const auto& [sink, entry] : SinkRegistry::entries()) {
    const std::string& files = entry.traits.files;
    const bool is_its_own = files.ends_with('*') ? name.starts_with(files.substr(0, files.size() - 1)) : name == files;
    if (is_its_own) return true;
  }
  return name.starts_with("trace-rank-");
}

/// Whether a run that was killed leaves such a file of which it had written a part. Earlier versions wrote NAME.tmp.
bool is_left_over(const std::string& name) {
  if (is_aside_name(name)) return true;
  const fs::path path(name);
  return path.extension() == kCutShort && is_of_a_run(path.stem().string());
}

/// Whether the folder has nothing in it but left-overs.
bool holds_nothing(const fs::path& out, std::error_code& failure) {
  fs::directory_iterator entry(out, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
    if (!is_left_over(entry->path().filename().string())) return false;
  return true;
}

Error cannot_write(const fs::path& out, const std::error_code& failure) {
  return io_error(concat("--out ", out.string(), ": ", failure.message(), "; expected a folder that can be written"));
}

/// Throws config_error if OUT holds checkpoints or weights, of an earlier run or of one that is writing there now.
void check_holds_no_weights(const fs::path& out) {
  std::error_code failure;  // check_run_folder() refuses a folder that cannot be looked at
  for (const auto& entry : fs::directory_iterator(out, failure)) {
    const std::string name = entry.path().filename().string();
    if (is_left_over(name) || (!is_checkpoint_name(name) && name != kModelFile)) continue;
    FolderLock{out};  // a run that goes on must not be removed by --force
    throw config_error(concat("--out ", out.string(), ": holds ", name,
                              " of an earlier run; expected --resume auto to ",
                              "go on with that run, --force to remove it, or another folder"));
  }
}

const fs::path& checked(const fs::path& out) {
  check_run_folder(out);
  return out;
}

}  // namespace

fs::path default_run_folder(const std::string& arch, const std::string& mode) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  return fs::path("runs") / concat(arch.substr(0, arch.find('(')), "-", mode.substr(0, mode.find('(')), "-", text);
}

void check_run_folder(const fs::path& out) {
  std::error_code failure;
  const auto status = fs::status(out, failure);
  if (status.type() == fs::file_type::none) throw cannot_write(out, failure);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) throw config_error(concat("--out ", out.string(), ": a file; expected a folder"));
  if (has_options(out)) return;
  const bool is_empty = holds_nothing(out, failure);
  if (failure) throw cannot_write(out, failure);
  if (!is_empty)
    throw config_error(concat("--out ", out.string(), ": holds files, but no ", kOptions, " of an earlier run; ",
                              "expected a new folder, an empty one, or a run's"));
}

bool resolve_out(TrainOptions& options) {
  check_local_output("--out", options.out);
  if (!options.out.empty()) return false;
  const fs::path& weights = options.only_evaluates && options.resume.empty() ? options.pretrained : options.resume;
  const fs::path resumed = weights.empty() ? fs::path() : fs::absolute(weights).parent_path();
  const bool is_of_a_run = !resumed.empty() && has_options(resumed);
  options.out = is_of_a_run ? resumed : default_run_folder(options.arch.text(), options.mode.text());
  return !is_of_a_run;
}

void check_evaluation_folder(const TrainOptions& options) {
  const fs::path& weights = options.resume.empty() ? options.pretrained : options.resume;
  std::error_code ignored;  // check_run_folder() refuses a folder that cannot be looked at
  if (fs::equivalent(fs::absolute(weights).parent_path(), options.out, ignored)) return;
  if (!fs::exists(options.out / "evaluation.json", ignored)) check_run_folder(options.out);
}

void check_training_folder(const TrainOptions& options) {
  check_run_folder(options.out);
  std::error_code ignored;  // no folder: nothing is removed
  const bool goes_on =
      options.resumes_if_possible() ||
      (!options.resume.empty() && fs::equivalent(fs::absolute(options.resume).parent_path(), options.out, ignored));
  if (!goes_on && !options.replaces_run) check_holds_no_weights(options.out);
}

void make_new_folder(fs::path& out) {
  std::error_code failure;
  fs::create_directories(out.parent_path(), failure);
  const fs::path first = out;
  for (int number = 2; !failure && !fs::create_directory(out, failure) && !failure; ++number)
    out = concat(first.string(), "-", number);
  if (failure) throw cannot_write(out, failure);
}

int lock_run_folder(const fs::path& out, const std::string& what) {
  const int lock = open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock);
    throw config_error(concat("--out ", out.string(), ": another ", what, " is writing into it; expected a folder of ",
                              "this ", what, "'s own"));
  }
  return lock;
}

FolderLock::FolderLock(const fs::path& out) {
  std::error_code failure;
  fs::create_directories(out, failure);
  if (failure) throw cannot_write(out, failure);
  lock_ = lock_run_folder(out, "run");
}

FolderLock::~FolderLock() { close(lock_); }

// options.json stays until the run's own takes its place: without it a folder with foreign files would be nobody's, and
// a run that is killed in between could never begin in it again.
RunFolder::RunFolder(const fs::path& out, bool is_resumed) : lock_(checked(out)) {
  std::error_code failure;
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(out, failure)) {
    const std::string name = entry.path().filename().string();
    if (is_aside_name(name) || name == kOptions) continue;
    if (is_left_over(name) || (!is_resumed && is_of_a_run(name))) earlier.push_back(entry.path());
  }
  for (const auto& path : earlier)
    if (!failure) fs::remove(path, failure);
  if (failure) throw cannot_write(out, failure);
  remove_left_asides(out);
}

}  // namespace penstock
