// Schedule file: cells to actions, what each action needs, and whether the rows come to their end.
#include "train/parallel/pipeline/schedule_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;  // a hundred times what 64 ranks and 64 micro-batches need

enum class Word { kF, kB, kI, kW, kSendF, kRecvF, kSendB, kRecvB };
using enum Word;

constexpr std::array<const char*, 8> kWords{"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr std::array<const char*, 3> kPassedOver{"UNSHARD", "RESHARD", "REDUCE_GRAD"};

/// One operation or message of a file.
struct Action {
  Word word;
  int stage, micro_batch;
  size_t row, column;  // from 0

  std::string text() const { return concat(stage, kWords[static_cast<size_t>(word)], micro_batch); }
  bool is_message() const { return word >= kSendF; }
};

std::string rank_text(size_t row) { return concat("row ", row + 1, " (rank ", row, ")"); }
std::string place_text(const Action& action) { return concat(rank_text(action.row), ", column ", action.column + 1); }

/// Cells to actions.
class CellReader {
 public:
  explicit CellReader(const std::string& where) : where_(where) {}

  std::vector<Action> read(std::string_view text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of what Excel calls CSV UTF-8
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    const auto lines = split(text, '\n');
    for (row_ = 0; row_ < lines.size(); ++row_) {
      if (!trimmed(lines[row_]).empty()) row_count_ = row_ + 1;
      const auto cells = split(lines[row_], ',');
      for (column_ = 0; column_ < cells.size(); ++column_) read_cell(trimmed(cells[column_]));
    }
    return std::move(actions_);
  }
  size_t row_count() const { return row_count_; }  ///< Up to the last row with anything in it, also with commas alone.

 private:
  static std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
  }

  [[noreturn]] void refuse(const std::string& cell) const {
    throw config_error(concat(where_, ": ", rank_text(row_), ", column ", column_ + 1, ": ", in_quotes(shortened(cell)),
                              " is no operation; expected [stage][", join({kWords.begin(), kWords.end()}, "|"),
                              "][micro-batch], as 2F0; older versions of PyTorch wrote B for I, and BW for B"));
  }

  void read_cell(const std::string& cell) {
    if (cell.empty()) return;
    constexpr std::string_view kOverlap = ")OVERLAP_F_B";
    if (cell.front() != '(') return read_action(cell, cell);
    if (!cell.ends_with(kOverlap)) refuse(cell);
    for (const auto& one : split(std::string_view(cell).substr(1, cell.size() - 1 - kOverlap.size()), ';'))
      read_action(trimmed(one), cell);
  }

  void read_action(const std::string& text, const std::string& cell) {
    constexpr const char* kDigits = "0123456789";
    const size_t begin = std::min(text.find_first_not_of(kDigits), text.size());
    const size_t end = std::max(begin, text.find_last_not_of(kDigits) + 1);
    const auto stage = parse_number<int>(text.substr(0, begin)), micro_batch = parse_number<int>(text.substr(end));
    const std::string word = text.substr(begin, end - begin);
    if (stage && std::find(kPassedOver.begin(), kPassedOver.end(), word) != kPassedOver.end()) return;
    const auto known = std::find(kWords.begin(), kWords.end(), word);
    if (!stage || !micro_batch || known == kWords.end()) refuse(cell);
    actions_.push_back({static_cast<Word>(known - kWords.begin()), *stage, *micro_batch, row_, column_});
  }

  const std::string& where_;
  size_t row_ = 0, column_ = 0, row_count_ = 0;
  std::vector<Action> actions_;
};

/// What is checked of the actions of all rows together.
class ScheduleCheck {
 public:
  ScheduleCheck(const std::string& where, const std::vector<Action>& actions, size_t row_count)
      : where_(where), actions_(actions), row_count_(row_count) {}

  PlacedSchedules run() {
    place_stages();
    find_actions();
    check_micro_batches();
    for (const auto& action : actions_) check_action(action);
    check_end();
    return schedules();
  }

 private:
  using Key = std::tuple<Word, int, int>;  // with the stage and the micro-batch

  [[noreturn]] void refuse(const Action& action, const std::string& what) const {
    throw config_error(concat(where_, ": ", place_text(action), ": ", action.text(), " ", what));
  }

  void place_stages() {
    if (actions_.empty()) throw config_error(concat(where_, ": no operation; expected a row per rank"));
    std::map<int, const Action*> first;  // by stage
    for (const auto& action : actions_) {
      const auto& known = first.emplace(action.stage, &action).first->second;
      if (known->row != action.row)
        refuse(action, concat("is of stage ", action.stage, ", which ", place_text(*known),
                              " has too; expected every stage at one rank"));
    }
    std::vector<bool> has_stage(row_count_);
    for (const auto& [stage, action] : first) {
      if (stage != static_cast<int>(rows_.size()))
        refuse(*action, concat("is of stage ", stage, ", and stage ", rows_.size(),
                               " is nowhere; expected stages 0 to ", first.size() - 1));
      rows_.push_back(static_cast<int>(action->row));
      has_stage[action->row] = true;
    }
    for (size_t row = 0; row < row_count_; ++row)
      if (!has_stage[row])
        throw config_error(concat(where_, ": ", rank_text(row), ": no operation; expected a stage at every rank"));
  }

  void find_actions() {
    for (size_t i = 0; i < actions_.size(); ++i) {
      const auto& action = actions_[i];
      has_messages_ |= action.is_message();
      const auto [known, is_new] = index_.emplace(Key{action.word, action.stage, action.micro_batch}, i);
      if (!is_new) refuse(action, concat("comes twice, first in column ", actions_[known->second].column + 1));
    }
  }

  const size_t* find(Word word, int stage, int micro_batch) const {
    const auto found = index_.find({word, stage, micro_batch});
    return found == index_.end() ? nullptr : &found->second;
  }

  /// B or I.
  const size_t* find_gradient(int stage, int micro_batch) const {
    const auto* whole = find(kB, stage, micro_batch);
    return whole ? whole : find(kI, stage, micro_batch);
  }

  /// Every forward has one in all stages before its own, so that the first one has all of them.
  void check_micro_batches() {
    for (const auto& action : actions_) {
      if (action.word == kF && action.stage == 0 && action.micro_batch > 0 && !find(kF, 0, action.micro_batch - 1))
        refuse(action, concat("has no 0F", action.micro_batch - 1, " beside it; expected micro-batches from 0 on"));
      if (action.word == kF && action.stage == 0) ++micro_batches_;
    }
  }

  bool is_last(int stage) const { return stage + 1 == static_cast<int>(rows_.size()); }
  /// Whether the output of `stage` goes to another rank.
  bool crosses(int stage) const { return rows_[static_cast<size_t>(stage)] != rows_[static_cast<size_t>(stage) + 1]; }

  /// The action that has to be there besides this one; throws if it is not.
  void check_there(const Action& action, Word word, int stage) const {
    if (!find(word, stage, action.micro_batch))
      refuse(action, concat("needs ", stage, kWords[static_cast<size_t>(word)], action.micro_batch,
                            ", which is missing; expected it in ",
                            rank_text(static_cast<size_t>(rows_[static_cast<size_t>(stage)]))));
  }

  void check_action(const Action& action) const {
    const auto [word, stage, m, row, column] = action;
    switch (word) {
      case kF:
        if (!find_gradient(stage, m)) check_there(action, kB, stage);
        break;
      case kB:
        for (const Word half : {kI, kW})
          if (const auto* other = find(half, stage, m))
            refuse(actions_[*other], concat("comes beside ", action.text(), " in column ", column + 1,
                                            ", which is both halves; expected I and W, or B"));
        break;
      case kI:
        check_there(action, kW, stage);
        break;
      case kW:
        break;
      case kSendF:
      case kRecvB:
        if (is_last(stage) || !crosses(stage))
          refuse(action, "has no other rank at its other end; expected no message");
        check_there(action, word == kSendF ? kRecvF : kSendB, stage + 1);
        break;
      case kRecvF:
      case kSendB:
        if (stage == 0 || !crosses(stage - 1))
          refuse(action, "has no other rank at its other end; expected no message");
        check_there(action, word == kSendB ? kRecvB : kSendF, stage - 1);
        break;
    }
    for (const Key& needed : needs(action)) {
      const auto& [needed_word, needed_stage, needed_m] = needed;
      check_there(action, needed_word, needed_stage);
      const auto& before = actions_[index_.at(needed)];
      if (before.row == row && &before > &action)
        refuse(action, concat("comes before ", before.text(), " in column ", before.column + 1, ", which it needs"));
    }
  }

  /// What has to be done before this action can begin.
  std::vector<Key> needs(const Action& action) const {
    const auto [word, stage, m, row, column] = action;
    const auto gradient = [&, m = m](int of) { return Key{find(kI, of, m) ? kI : kB, of, m}; };
    switch (word) {
      case kF:
        if (stage == 0) return {};
        if (has_messages_ && crosses(stage - 1)) return {{kRecvF, stage, m}};
        return {{kF, stage - 1, m}};
      case kB:
      case kI:
        if (is_last(stage)) return {{kF, stage, m}};
        if (has_messages_ && crosses(stage)) return {{kF, stage, m}, {kRecvB, stage, m}};
        return {{kF, stage, m}, gradient(stage + 1)};
      case kW:
        return {{kI, stage, m}};
      case kSendF:
        return {{kF, stage, m}};
      case kRecvF:
        return {{kSendF, stage - 1, m}};
      case kSendB:
        return {gradient(stage)};
      case kRecvB:
        return {{kSendB, stage + 1, m}};
    }
    return {};
  }

  /// Runs all rows; a row that waits goes on when what it waits for is done.
  void check_end() const {
    std::vector<std::vector<size_t>> rows(row_count_);  // indices of actions
    for (size_t i = 0; i < actions_.size(); ++i) rows[actions_[i].row].push_back(i);
    std::vector<size_t> next(row_count_, 0), ready;
    for (size_t row = 0; row < row_count_; ++row) ready.push_back(row);
    std::vector<bool> done(actions_.size(), false);
    std::map<size_t, std::vector<size_t>> waiting;  // rows, by the action for which they wait
    while (!ready.empty()) {
      const size_t row = ready.back();
      ready.pop_back();
      for (; next[row] < rows[row].size(); ++next[row]) {
        const size_t own = rows[row][next[row]];
        if (const auto missing = first_missing(actions_[own], done)) {
          waiting[*missing].push_back(row);
          break;
        }
        done[own] = true;
        if (const auto others = waiting.find(own); others != waiting.end()) {
          ready.insert(ready.end(), others->second.begin(), others->second.end());
          waiting.erase(others);
        }
      }
    }
    for (size_t row = 0; row < row_count_; ++row) {
      if (next[row] == rows[row].size()) continue;
      const auto& action = actions_[rows[row][next[row]]];
      const auto& missing = actions_[*first_missing(action, done)];
      refuse(action, concat("waits for ever: for ", missing.text(), " in ", place_text(missing),
                            ", before which that rank waits too"));
    }
  }

  std::optional<size_t> first_missing(const Action& action, const std::vector<bool>& done) const {
    for (const Key& needed : needs(action))
      if (const size_t index = index_.at(needed); !done[index]) return index;
    return std::nullopt;
  }

  PlacedSchedules schedules() const {
    using Kind = Operation::Kind;
    PlacedSchedules placed{.placement = Placement(rows_), .ranks = {}, .micro_batches = micro_batches_};
    placed.ranks.resize(row_count_);
    for (const auto& action : actions_) {
      if (action.is_message()) continue;
      constexpr std::array kKinds{Kind::kForward, Kind::kBackward, Kind::kInputGradient, Kind::kWeightGradient};
      placed.ranks[action.row].push_back(
          {kKinds[static_cast<size_t>(action.word)], action.micro_batch, placed.placement.chunk_of(action.stage)});
    }
    return placed;
  }

  const std::string& where_;
  const std::vector<Action>& actions_;
  size_t row_count_;
  std::vector<int> rows_;        // one entry per stage
  std::map<Key, size_t> index_;  // of the actions
  bool has_messages_ = false;
  int micro_batches_ = 0;
};

}  // namespace

PlacedSchedules parse_schedule(const std::string& where, std::string_view text) {
  CellReader reader(where);
  const auto actions = reader.read(text);
  return ScheduleCheck(where, actions, reader.row_count()).run();
}

PlacedSchedules read_schedule_file(const std::string& path) {
  const auto bytes = read_file(path, kMostBytes);
  return parse_schedule(path, as_text(bytes));
}

std::string csv_of(const PlacedSchedules& schedules) {
  std::string text;
  for (size_t rank = 0; rank < schedules.ranks.size(); ++rank) {
    std::vector<std::string> cells;
    for (const auto& one : schedules.ranks[rank])
      cells.push_back(concat(schedules.placement.part_of(static_cast<int>(rank), one.chunk),
                             kWords[static_cast<size_t>(one.kind)], one.micro_batch));
    text += join(cells, ",") + "\n";
  }
  return text;
}

}  // namespace penstock::detail
