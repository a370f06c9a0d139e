// meet(): one thread that may block in LibTorch's store, and one that watches it and the clock.
#include "train/rendezvous/store_rendezvous.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/rendezvous/address.h"
#include "train/rendezvous/rendezvous_file.h"
#include "train/rendezvous/token.h"
#include "train/tensor/short_message.h"

namespace penstock::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds, std::chrono::milliseconds;

constexpr milliseconds kPollEvery{20}, kLookEvery{1000};
constexpr int kConnectTimeoutMs = 2000;      // for one address, where packets are dropped without an answer
constexpr milliseconds kLastLookTime{2000};  // rank 0 keeps the store open for ranks that read why the meeting failed

const char* const kRefusal = "refusal";
const char* const kExpected = "all ranks there, with the same --dist-url (or a longer --timeout)";

std::string key(const char* what, int rank) { return concat(what, "/", rank); }

/// Ends this rank's part of a meeting that failed. The store goes with rank 0, so it waits until all that have arrived
/// have read why.
void leave(c10d::Store& store, int rank, bool has_arrived) {
  if (has_arrived) store.add("left", 1);
  if (rank != 0) return;
  const auto deadline = Clock::now() + kLastLookTime;
  while (Clock::now() < deadline && store.add("left", 0) < store.add("arrived", 0))
    std::this_thread::sleep_for(kPollEvery);
}

/// Every rank that is there or comes later ends with this message.
[[noreturn]] void refuse(SignedStore& store, int rank, const std::string& message, bool has_arrived = true) {
  store.set_first(kRefusal, message);
  leave(store.raw(), rank, has_arrived);
  throw config_error(message);
}

/// Must be called before a rank counts itself as arrived: the ranks of another world size would count it too, and might
/// take it for their last one and go on.
void check_world_size(SignedStore& store, const Rendezvous& rendezvous) {
  const std::string mine = std::to_string(rendezvous.world_size);
  const std::string theirs = store.set_first("world-size", mine);
  if (theirs != mine)
    refuse(store, rendezvous.rank,
           concat("rank ", rendezvous.rank, ": the world size is ", mine, "; expected ", theirs,
                  ", as the rank that came first has it"),
           /*has_arrived=*/false);
}

/// The fingerprints of all ranks. The counter only says when to look: anybody who can connect can count.
std::vector<RunFingerprint> wait_for_all(SignedStore& store, const Rendezvous& rendezvous,
                                         const std::function<void(const std::string&)>& wait_for) {
  std::vector<std::optional<RunFingerprint>> all(static_cast<size_t>(rendezvous.world_size));
  std::vector<int> missing;
  int64_t known_count = -1;
  auto last_look = Clock::now();
  while (true) {
    if (const auto refusal = store.find(kRefusal)) refuse(store, rendezvous.rank, *refusal);
    const int64_t count = store.raw().add("arrived", 0);
    if (count != std::exchange(known_count, count) || Clock::now() >= last_look + kLookEvery) {
      last_look = Clock::now();
      missing.clear();
      for (int rank = 0; rank < rendezvous.world_size; ++rank) {
        auto& fingerprint = all[static_cast<size_t>(rank)];
        if (!fingerprint)
          if (const auto text = store.find(key("terms", rank))) fingerprint = parse_fingerprint(*text);
        if (!fingerprint) missing.push_back(rank);
      }
      if (missing.empty()) break;
    }
    wait_for(ranks_text(missing));
    std::this_thread::sleep_for(kPollEvery);
  }
  std::vector<RunFingerprint> found;
  for (auto& fingerprint : all) found.push_back(std::move(*fingerprint));
  return found;
}

/// Where all ranks announce themselves. Requires that all have arrived.
std::vector<std::string> read_addresses(SignedStore& store, int world_size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(key("contact", rank));
  std::vector<Contact> contacts;
  for (const auto& text : store.read(keys)) contacts.push_back(parse_contact(text.value_or("")));
  return announced_addresses(contacts);
}

/// What the two threads of a meeting share. The blocking one may outlive meet(), until the process ends.
struct Progress {
  Mutex mutex;
  CondVar changed;
  std::string waited_for PENSTOCK_GUARDED_BY(mutex);  // "rank 1"
  std::string note PENSTOCK_GUARDED_BY(mutex);        // what else there is to say of the place where ranks meet
  std::string expected PENSTOCK_GUARDED_BY(mutex);    // what to do about it
  bool is_done PENSTOCK_GUARDED_BY(mutex) = false;
  bool is_given_up PENSTOCK_GUARDED_BY(mutex) = false;
  std::exception_ptr error PENSTOCK_GUARDED_BY(mutex);
  Met met PENSTOCK_GUARDED_BY(mutex);

  void wait_for(const std::string& ranks, const std::string& said_of_the_place = "",
                const std::string& expected_of_it = kExpected) {
    const MutexLock lock(mutex);
    // Nobody reads this one: it ends the thread, and whoever gave up has said which ranks are missing.
    if (is_given_up) throw device_error("rendezvous: the time is over; expected all ranks");
    waited_for = ranks;
    note = said_of_the_place;
    expected = expected_of_it;
  }
  /// Whether the thread that meets has ended, or does so at once.
  bool give_up() {
    const MutexLock lock(mutex);
    is_given_up = true;
    return changed.wait_for(mutex, 5 * kPollEvery, [&]() PENSTOCK_REQUIRES(mutex) { return is_done; });
  }
  void end(Met result, std::exception_ptr failure) {
    const MutexLock lock(mutex);
    is_done = true;
    met = std::move(result);
    error = std::move(failure);
    changed.notify_all();
  }
};

std::string place(const Rendezvous& rendezvous) {
  if (!rendezvous.file.empty()) return concat("file://", rendezvous.file);
  return concat(rendezvous.host, ":", rendezvous.port);
}

/// `note` is said of the place, as long as its name resolves.
void wait_for_rank_0(Progress& progress, const Lookup& lookup, const std::string& note = "") {
  const std::string& failure = lookup.failure();
  if (failure.empty())
    progress.wait_for("rank 0", note);
  else
    progress.wait_for("rank 0", concat(", a name that does not resolve yet (", failure, ")"), kResolvableText);
  std::this_thread::sleep_for(kPollEvery);
}

std::vector<Address> wait_for_addresses(Progress& progress, Lookup& lookup) {
  while (lookup.addresses().empty()) wait_for_rank_0(progress, lookup);
  return lookup.addresses();
}

/// The addresses at which somebody accepts connections, and from which this machine connects to it. LibTorch's own
/// client tells of every try that fails, with stack frames, and would ask for the host's addresses once more.
Contact wait_for_listener(Progress& progress, Lookup& lookup, int port, const std::string& note) {
  while (true) {
    for (const Address& address : lookup.addresses())
      if (const auto own = try_connect(address, port, kConnectTimeoutMs)) return {own->text(), address.text()};
    wait_for_rank_0(progress, lookup, note);
  }
}

/// Where the store is, and how this rank has found that out.
struct Place {
  std::string host;
  int port = 0;
  std::optional<int> listening = {};  // rank 0's socket
  Contact contact = {};
};

/// Where rank 0 listens, from the file into which it writes that when all ranks have checked in.
Place wait_for_file(Progress& progress, const Rendezvous& rendezvous) {
  std::optional<CheckIn> check_in;
  std::string mark;
  while (true) {
    const auto found = read_rendezvous_file(rendezvous.file);
    if (found && found->address) return {found->address->first, found->address->second};
    if (found && std::exchange(mark, found->mark) != found->mark) {
      check_in.reset();
      check_in.emplace(rendezvous.file, rendezvous.rank, mark);
    }
    progress.wait_for("rank 0");
    std::this_thread::sleep_for(kPollEvery);
  }
}

/// Whether all ranks are on this machine.
bool wait_for_check_ins(Progress& progress, const RendezvousFile& file, int world_size) {
  std::vector<int> missing(static_cast<size_t>(world_size - 1));
  std::iota(missing.begin(), missing.end(), 1);
  bool are_here = true;
  while (true) {
    std::erase_if(missing, [&](int rank) {
      const auto is_here = file.is_here(rank);
      are_here = are_here && is_here.value_or(true);
      return is_here.has_value();
    });
    if (missing.empty()) return are_here;
    progress.wait_for(ranks_text(missing));
    std::this_thread::sleep_for(kPollEvery);
  }
}

/// Rank 0 of a run that meets by a file: listens at any free port.
Place listen_by_file(Progress& progress, const Rendezvous& rendezvous, std::optional<RendezvousFile>& file) {
  file.emplace(rendezvous.file);
  const bool are_here = wait_for_check_ins(progress, *file, rendezvous.world_size);
  std::optional<Address> address;
  if (!rendezvous.interface.empty())
    address = address_of_interface(rendezvous.interface);
  else if (are_here)
    address = resolve("127.0.0.1").front();
  const int socket = listen_at(address, 0);
  file->publish(address ? address->text() : host_name(), port_of(socket));
  return {address ? address->text() : "127.0.0.1", port_of(socket), socket};
}

Place listen(Progress& progress, const Rendezvous& rendezvous) {
  Lookup lookup(rendezvous.host);
  const auto address = address_to_listen_on(rendezvous.host, rendezvous.interface,
                                            [&](const std::string&) { return wait_for_addresses(progress, lookup); });
  const int socket = listen_at(address, rendezvous.port);
  if (!address) return {rendezvous.host, rendezvous.port, socket};
  return {address->text(), rendezvous.port, socket, {address->text(), ""}};
}

/// `file` is written by rank 0 if the ranks meet by one.
Place find_place(Progress& progress, const Rendezvous& rendezvous, std::optional<RendezvousFile>& file) {
  const bool has_file = !rendezvous.file.empty();
  if (rendezvous.rank == 0 && !rendezvous.is_hosted)
    return has_file ? listen_by_file(progress, rendezvous, file) : listen(progress, rendezvous);
  Place place{rendezvous.host, rendezvous.port};
  if (has_file) place = wait_for_file(progress, rendezvous);
  Lookup lookup(place.host);
  const std::string note =
      has_file ? concat(", which names ", place.host, ":", place.port, ", where nobody listens") : "";
  place.contact = wait_for_listener(progress, lookup, place.port, note);
  place.host = place.contact.store;
  return place;
}

/// The store, and this rank's contact with it.
std::pair<SignedStore, Contact> connect(Progress& progress, const Rendezvous& rendezvous,
                                        std::optional<RendezvousFile>& file) {
  Place place = find_place(progress, rendezvous, file);
  if (!rendezvous.interface.empty() && !is_loopback(place.host))
    place.contact.own = address_of_interface(rendezvous.interface).text();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = place.listening.has_value();
  options.masterListenFd = place.listening;
  options.numWorkers = rendezvous.world_size;
  options.waitWorkers = false;  // agree() waits, and says for whom
  options.timeout = seconds(rendezvous.meeting_seconds);
  const std::string room = concat("penstock/", rendezvous.attempt, name_of_token(rendezvous.token));
  auto store = c10::make_intrusive<c10d::PrefixStore>(room, c10::make_intrusive<c10d::TCPStore>(place.host, options));
  return {SignedStore(std::move(store), rendezvous.token), place.contact};
}

Error store_error(const Rendezvous& rendezvous, const std::exception& error) {
  const std::string text = short_message(error);
  return device_error(concat("rank ", rendezvous.rank, ": rendezvous at ", place(rendezvous), ": ",
                             text.substr(0, text.find('\n')), "; expected rank 0 there until all ranks have met"));
}

void attend(const std::shared_ptr<Progress>& progress, const Rendezvous& rendezvous,
            const RunFingerprint& fingerprint) {
  try {
    std::optional<RendezvousFile> file;
    auto [store, contact] = connect(*progress, rendezvous, file);
    agree(
        store, rendezvous, fingerprint, [&](const std::string& ranks) { progress->wait_for(ranks); }, contact);
    progress->end({store.shared(), read_addresses(store, rendezvous.world_size)}, nullptr);
  } catch (const Error&) {
    progress->end({}, std::current_exception());
  } catch (const std::exception& error) {
    progress->end({}, std::make_exception_ptr(store_error(rendezvous, error)));
  }
}

/// Until the meeting is done. Throws at the deadline.
void watch(Progress& progress, const Rendezvous& rendezvous, const Meeting& meeting) {
  const auto start = Clock::now(), deadline = start + seconds(rendezvous.meeting_seconds);
  MutexLock lock(progress.mutex);
  for (double line_after = meeting.log_after_seconds;; line_after *= 2) {
    const auto line_due = start + milliseconds(std::llround(line_after * 1e3));
    progress.changed.wait_until(progress.mutex, std::min(deadline, line_due),
                                [&]() PENSTOCK_REQUIRES(progress.mutex) { return progress.is_done; });
    if (progress.is_done) return;
    const std::string whom =
        concat(progress.waited_for, " of ", rendezvous.world_size, " at ", place(rendezvous), progress.note);
    if (Clock::now() >= deadline)
      throw device_error(concat("rank ", rendezvous.rank, ": waited ", rendezvous.meeting_seconds, " s for ", whom,
                                "; expected ", progress.expected));
    lock.unlock();
    meeting.log(concat("waiting for ", whom, ", ", line_after, " s"));
    lock.lock();
  }
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 3;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() <= kMost ? text : concat(text, " and ", ranks.size() - kMost, " more");
}

void agree(SignedStore& store, const Rendezvous& rendezvous, const RunFingerprint& fingerprint,
           const std::function<void(const std::string&)>& wait_for, const Contact& contact) {
  const int rank = rendezvous.rank;
  const std::string own_mark = random_token();
  if (store.set_first(key("place", rank), own_mark) != own_mark)
    throw device_error(concat("rank ", rank, ": there is a rank ", rank, " at ", place(rendezvous),
                              " already; expected every rank once (after a rank has ended, start all anew)"));
  check_world_size(store, rendezvous);
  store.set(key("contact", rank), to_text(contact));
  store.set(key("terms", rank), to_text(fingerprint));
  store.raw().add("arrived", 1);
  const auto all = wait_for_all(store, rendezvous, wait_for);
  if (const std::string difference = difference_of(all); !difference.empty()) refuse(store, rank, difference);
}

Met meet(const Rendezvous& rendezvous, const Meeting& meeting) {
  const auto progress = std::make_shared<Progress>();
  progress->wait_for("rank 0");
  std::thread worker([=, fingerprint = meeting.fingerprint] { attend(progress, rendezvous, fingerprint); });
  try {
    watch(*progress, rendezvous, meeting);
  } catch (...) {
    if (progress->give_up())
      worker.join();
    else
      worker.detach();  // nothing ends a read of LibTorch's but the process
    throw;
  }
  worker.join();
  const MutexLock lock(progress->mutex);
  if (progress->error) std::rethrow_exception(progress->error);
  return progress->met;
}

}  // namespace penstock::detail
