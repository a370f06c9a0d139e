// join_sources(): ids and labels of several sources.
#include "loader/sources/joined_source.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

/// The names of the folders, made different.
std::vector<std::string> names_of_inputs(const std::vector<fs::path>& inputs) {
  std::vector<std::string> names;
  for (const auto& input : inputs) {
    const fs::path whole = fs::absolute(input).lexically_normal();
    names.push_back((whole.has_filename() ? whole : whole.parent_path()).filename().string());
  }
  auto result = names;
  for (size_t i = 0; i < names.size(); ++i)
    if (std::count(names.begin(), names.end(), names[i]) > 1) result[i] += concat("-", i + 1);
  return result;
}

class JoinedSource final : public Source {
 public:
  JoinedSource(std::vector<std::unique_ptr<Source>> sources, const std::vector<fs::path>& inputs)
      : sources_(std::move(sources)), names_(names_of_inputs(inputs)) {
    uint64_t size = 0;
    for (size_t i = 0; i < sources_.size(); ++i) {
      check_alike(*sources_[i], inputs[i], inputs[0]);
      ends_.push_back(size += sources_[i]->size());
    }
    join_classes();
  }

  uint64_t size() const override { return ends_.back(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override {
    const auto [source, own] = place_of(index);
    return labels_[source][static_cast<size_t>(sources_[source]->label(own))];
  }
  SourceSample read(uint64_t index) const override {
    const auto [source, own] = place_of(index);
    return sources_[source]->read(own);
  }
  std::vector<FieldType> fields() const override { return sources_.front()->fields(); }
  std::string fingerprint() const override {
    std::string text;
    for (size_t i = 0; i < sources_.size(); ++i) text += concat(names_[i], "\n", sources_[i]->fingerprint(), "\n");
    return text;
  }
  std::string where(uint64_t index) const override {
    const auto [source, own] = place_of(index);
    const std::string where = sources_[source]->where(own);
    return where.starts_with("sample ") ? concat(names_[source], ": ", where) : where;
  }
  std::string path(uint64_t index) const override {
    const auto [source, own] = place_of(index);
    const std::string path = sources_[source]->path(own);
    return path.empty() ? path : concat(names_[source], "/", path);
  }
  std::optional<Extent> raw_extent() const override { return sources_.front()->raw_extent(); }
  PixelType raw_pixels() const override { return sources_.front()->raw_pixels(); }
  IgnoredFiles ignored() const override {
    IgnoredFiles all;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const IgnoredFiles own = sources_[i]->ignored();
      for (const auto& name : own.first) all.add(concat(names_[i], "/", name));
      all.count += own.count - own.first.size();
    }
    return all;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    for (const auto& source : sources_)
      for (auto& note : source->notes()) all.push_back(std::move(note));
    return all;
  }

 private:
  struct Place {
    size_t source;
    uint64_t own;  // the id in it
  };

  Place place_of(uint64_t index) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    return {static_cast<size_t>(end - ends_.begin()), end == ends_.begin() ? index : index - *(end - 1)};
  }

  void check_alike(const Source& source, const fs::path& input, const fs::path& first_input) const {
    const Source& first = *sources_.front();
    const auto refuse = [&](const std::string& fact) {
      return config_error(concat("pack: ", input.string(), " ", fact, ", unlike ", first_input.string(),
                                 "; expected inputs that are alike"));
    };
    if (source.class_names().empty() != first.class_names().empty())
      throw refuse(source.class_names().empty() ? "has no classes" : "has classes");
    const auto size_text = [](const std::optional<Extent>& extent) {
      return extent ? concat(extent->height, " x ", extent->width, " x ", extent->channels) : "any size in files";
    };
    if (source.raw_extent() != first.raw_extent())
      throw refuse(
          concat("has pictures of ", size_text(source.raw_extent()), " and not ", size_text(first.raw_extent())));
    const auto types = source.fields(), expected = first.fields();
    if (types.size() != expected.size())
      throw refuse(concat("has ", types.size(), " fields and not ", expected.size()));
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i] != expected[i])
        throw refuse(concat("has the field ", type_text(types[i]), " and not ", type_text(expected[i])));
  }

  void join_classes() {
    std::set<std::string> all;
    for (const auto& source : sources_) {
      const auto names = source->class_names();
      all.insert(names.begin(), names.end());
      if (names.size() > class_names_.size()) class_names_ = names;
    }
    if (all.size() > class_names_.size()) class_names_.assign(all.begin(), all.end());
    for (const auto& source : sources_) {
      auto& labels = labels_.emplace_back();
      for (const auto& name : source->class_names())
        labels.push_back(std::find(class_names_.begin(), class_names_.end(), name) - class_names_.begin());
    }
  }

  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::string> names_;  // one entry per source: what its paths begin with
  std::vector<uint64_t> ends_;      // one entry per source: the id after its last one
  std::vector<std::string> class_names_;
  std::vector<std::vector<int64_t>> labels_;  // one entry per source: the label of each of its classes
};

}  // namespace

std::unique_ptr<Source> join_sources(std::vector<std::unique_ptr<Source>> sources,
                                     const std::vector<fs::path>& inputs) {
  return std::make_unique<JoinedSource>(std::move(sources), inputs);
}

std::unique_ptr<Source> open_source(const Spec& spec, const fs::path& input, const std::vector<fs::path>& more_inputs,
                                    const std::string& split) {
  if (more_inputs.empty()) return SourceRegistry::make(spec, input, split);
  std::vector<fs::path> inputs{input};
  inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
  check_each_once("input", inputs);
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& each : inputs) sources.push_back(SourceRegistry::make(spec, each, split));
  return join_sources(std::move(sources), inputs);
}

}  // namespace penstock::detail
