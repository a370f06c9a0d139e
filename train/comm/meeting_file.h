// Meeting file: where rank 0 of a run with --dist-url file://PATH writes at which address it listens.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace penstock::detail {

/// The file of rank 0, from its creation until the ranks have met: it is removed with this object.
class MeetingFile {
 public:
  /// Throws config_error if there is such a file: it is of a run that was killed before its ranks had met, or of
  /// another run that is about to start; which of the two, nobody can tell. Throws io_error.
  MeetingFile(std::filesystem::path path, const std::string& host, int port);
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

 private:
  std::filesystem::path path_;
};

/// Host and port in the file; nothing if it is not there yet. The host is 127.0.0.1 if rank 0 is on this machine and
/// has not named an interface. Throws config_error for a file that no rank 0 has written.
std::optional<std::pair<std::string, int>> read_meeting_file(const std::filesystem::path& path);

std::string host_name();  ///< Of this machine.

}  // namespace penstock::detail
