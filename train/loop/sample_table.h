// SampleTable: evaluation.csv, one line per sample in the order of the data set, from the rows of all ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "loader/shards/dataset.h"
#include "train/comm/comm.h"
#include "train/tensor/device_batch.h"

namespace penstock {

class AtomicFile;

/// Collects numbers of all ranks at rank 0, batch by batch. A line begins with `id,path`; the classes below say what
/// follows. Rows of weight 0 do not count.
///
/// Memory: one batch of all ranks. Errors: io_error. Thread-safety: for the training thread only.
class SampleTable {
 public:
  /// Requires that the batches are those of an unshuffled pass over `dataset`, and that rank 0 has all shards open.
  /// Only rank 0 writes. `columns`: "label,loss"; `number_count`: of one row of numbers_of().
  SampleTable(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
              const std::filesystem::path& csv, const std::string& columns, int64_t number_count);
  virtual ~SampleTable();

  /// Collective. `outputs` and the rows' `losses` are undefined at a rank that has none.
  void add(const DeviceBatch& batch, const torch::Tensor& outputs, const torch::Tensor& losses);
  /// Rank 0 only: makes the file appear under its name.
  void commit();

 protected:
  const Manifest& manifest() const { return dataset_->manifest(); }

 private:
  /// What is gathered of each row: rows x `number_count`, on any device and of any dtype that f64 holds.
  virtual torch::Tensor numbers_of(const DeviceBatch& batch, const torch::Tensor& outputs,
                                   const torch::Tensor& losses) const = 0;
  /// Rank 0 only: the fields of one sample, "cat,0.25".
  virtual std::string fields_of(const double* numbers) = 0;

  Comm& comm_;
  torch::Device device_;
  std::shared_ptr<const Dataset> dataset_;
  int64_t number_count_;
  std::unique_ptr<AtomicFile> csv_;  // null except at rank 0
};

/// `text` as a field of CSV (RFC 4180): if it holds a separator, a quote or a line end, it is quoted and its quotes are
/// doubled.
std::string csv_field(std::string_view text);

/// The targets and outputs of models that are trained on a field: `id,path,loss,target,output`, or with several numbers
/// `target.0`, `target.1` and so on.
class OutputTable final : public SampleTable {
 public:
  OutputTable(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
              const std::filesystem::path& csv, int64_t outputs);

 private:
  torch::Tensor numbers_of(const DeviceBatch& batch, const torch::Tensor& outputs,
                           const torch::Tensor& losses) const override;
  std::string fields_of(const double* numbers) override;

  int64_t outputs_;
};

}  // namespace penstock
