// Predictions: what an evaluation says about each sample (evaluation.csv) and each class (counts).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/loop/sample_table.h"
#include "train/losses/target.h"

namespace penstock {

/// Counts of the samples of one class: all, those whose class has the largest logit, and those whose class is among the
/// five largest.
struct ClassTally {
  int64_t count = 0, hit_count = 0, top5_count = 0;
  std::map<int64_t, int64_t> predictions;  ///< Predicted class -> samples of this class; without zeros.
};

/// The predictions of classes: `id,path,label,prediction,top5,loss`, with labels as names. top5 is 1 if fewer than five
/// classes have a larger logit than the label.
///
/// Memory: besides that of a SampleTable, counts for each class and for each pair of classes that occurs; none per
/// sample.
class Predictions final : public SampleTable {
 public:
  Predictions(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
              const std::filesystem::path& csv);

  const std::vector<ClassTally>& classes() const { return classes_; }  ///< Rank 0 only: one entry per class.

 private:
  torch::Tensor numbers_of(const DeviceBatch& batch, const torch::Tensor& logits,
                           const torch::Tensor& losses) const override;
  std::string fields_of(const double* numbers) override;

  std::vector<ClassTally> classes_;
};

/// Predictions for models that are trained on classes, an OutputTable for others.
std::unique_ptr<SampleTable> make_sample_table(const LossTarget& target, Comm& comm, const torch::Device& device,
                                               std::shared_ptr<const Dataset> dataset,
                                               const std::filesystem::path& csv);

}  // namespace penstock
