// The speed of an emulated link (`--sim-link 20ms,100MB/s`), and how a data set gets behind one.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace penstock {

/// The environment variable of `--sim-link`, by which ranks that a process starts have it as well.
constexpr const char* kSimLinkVariable = "PENSTOCK_SIM_LINK";
constexpr const char* kSimScheme = "sim:";  ///< `sim:FOLDER` is the local folder, over the emulated link.

struct LinkSpeed {
  double delay_ms = 0;          ///< From a request to its first byte.
  double bytes_per_second = 0;  ///< All requests of a process together.
};

/// Parses `20ms,100MB/s`, in either order, or the rate alone. Units of the rate are kB, MB and GB, powers of 1000.
/// Throws config_error, which begins with `where` ("--sim-link:"), for another text.
LinkSpeed parse_link_speed(const std::string& where, const std::string& text);

/// The speed that PENSTOCK_SIM_LINK names; none where it is not set. Throws as parse_link_speed().
std::optional<LinkSpeed> sim_link();

/// Checks `speed`, sets PENSTOCK_SIM_LINK to it, and returns the address of `folder` behind that link. Throws
/// config_error as parse_link_speed(), and where `folder` is far already.
std::string behind_sim_link(const std::string& where, const std::string& speed, const std::string& folder);

namespace detail {

class Origin;

/// Files of addresses `sim:PATH`, at the speed of sim_link(). Bytes of all requests of all processes that share the
/// cache come over one link (SharedLink::reserve()), which brings those of a request once its delay is over.
std::unique_ptr<Origin> make_emulated_origin();

}  // namespace detail
}  // namespace penstock
