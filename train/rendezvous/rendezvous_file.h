// Rendezvous file: where rank 0 of a run with --dist-url file://PATH writes at which address it listens, and how
// it learns before that whether all ranks are on its machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace penstock::detail {

/// The file of rank 0, from its creation until the ranks have met: it is removed with this object. The other ranks
/// check in when it is there, and read the address when rank 0 has published it.
class RendezvousFile {
 public:
  /// Throws config_error if there is such a file: it is of a run that was killed before its ranks had met, or of
  /// another run that is about to start; which of the two, nobody can tell. Throws io_error.
  explicit RendezvousFile(std::filesystem::path path);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

  /// Whether the rank is on this machine; nothing until it has checked in.
  std::optional<bool> is_here(int rank) const;
  /// Throws io_error.
  void publish(const std::string& host, int port) const;

 private:
  std::filesystem::path path_;
  std::string mark_;  // of this meeting, so that what an earlier one left beside the file is not taken for this one's
};

/// What another rank writes beside the file, as PATH.RANK, which is removed with this object.
class CheckIn {
 public:
  /// `mark` is the file's. Throws io_error.
  CheckIn(const std::filesystem::path& path, int rank, const std::string& mark);
  ~CheckIn();
  CheckIn(const CheckIn&) = delete;
  CheckIn& operator=(const CheckIn&) = delete;

 private:
  std::filesystem::path own_;
};

/// What stands in the file so far.
struct RendezvousPlace {
  std::string mark;
  /// Host and port; nothing until rank 0 listens. The host is 127.0.0.1 if rank 0 is on this machine and has not named
  /// an interface.
  std::optional<std::pair<std::string, int>> address;
};
/// Nothing if the file is not there yet. Throws config_error for a file that no rank 0 has written.
std::optional<RendezvousPlace> read_rendezvous_file(const std::filesystem::path& path);

std::string host_name();  ///< The name of this machine.

}  // namespace penstock::detail
