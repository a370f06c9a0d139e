// The folder of a run: its default name, whether it may be written to, and its lock.
#pragma once

#include <filesystem>
#include <string>

#include "train/options/options.h"

namespace penstock {

constexpr const char* kQuarantine = "quarantine.jsonl";  // the file of a run that names corrupt samples

/// runs/<arch>-<mode>-<year><month><day>-<hour><minute><second>.
std::filesystem::path default_run_folder(const std::string& arch, const std::string& mode);

/// Throws config_error unless OUT may become the folder of a run: it does not exist, is empty, or holds an earlier run
/// (options.json). A run does not write into a folder with other files. What a killed run has left half written is
/// nothing.
void check_run_folder(const std::filesystem::path& out);

/// Sets the default of --out: the folder of the run that is continued or evaluated, otherwise a new one. Returns
/// whether it is a new one.
bool resolve_out(TrainOptions& options);

/// Throws config_error if an evaluation may not write into OUT. It may write where a run may, and also into the folder
/// of its weights and over an earlier evaluation.
void check_evaluation_folder(const TrainOptions& options);

/// Throws config_error if a run may not write into OUT, or if OUT holds checkpoints or weights, which the run would
/// remove: it neither goes on from a checkpoint in OUT nor has --force.
void check_training_folder(const TrainOptions& options);

/// Makes the folder, which is then this process's alone: another one that does so in the same second gets another name.
/// Where `out` is there already, it becomes `out`-2, or the next one that is not. Throws io_error.
void make_new_folder(std::filesystem::path& out);

/// The format of summary.json. Summaries of another format are not compared.
constexpr int kSummaryFormat = 2;

/// Locks a folder that exists. The lock lasts until the descriptor that is returned is closed; it is -1 if the folder
/// cannot be opened. A file system without locks gives none. Throws config_error if another process holds the lock:
/// `--out DIR: another <what> is writing into it; ...`.
int lock_run_folder(const std::filesystem::path& out, const std::string& what);

/// Holds the lock of a folder, so that a second run or evaluation into it is refused. The lock ends with the process
/// that holds it. On file systems without locks there is none.
class FolderLock {
 public:
  /// Makes the folder if it does not exist. Throws config_error like lock_run_folder(); throws io_error.
  explicit FolderLock(const std::filesystem::path& out);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int lock_;
};

/// The folder of a run, which is locked from its first file to its last.
class RunFolder {
 public:
  /// Makes OUT and removes the files of an earlier run in it (with --force also its checkpoints), except its
  /// options.json, which is to be replaced; if
  /// `is_resumed`, only what a killed run has left half written. Throws config_error like check_run_folder() and if
  /// another run is writing into OUT; throws io_error.
  RunFolder(const std::filesystem::path& out, bool is_resumed);

 private:
  FolderLock lock_;
};

}  // namespace penstock
