// SampleTable: rows are gathered with their positions, by which rank 0 finds the samples.
#include "train/loop/sample_table.h"

#include <utility>

#include "core/atomic_file.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/losses/target.h"

namespace penstock {
namespace {

/// "loss,target.0,target.1,output.0,output.1".
std::string columns_of(int64_t outputs) {
  std::string columns = "loss";
  for (const char* name : {",target", ",output"})
    for (int64_t i = 0; i < outputs; ++i) columns += outputs == 1 ? name : concat(name, ".", i);
  return columns;
}

}  // namespace

SampleTable::SampleTable(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
                         const std::filesystem::path& csv, const std::string& columns, int64_t number_count)
    : comm_(comm), device_(device), dataset_(std::move(dataset)), number_count_(number_count) {
  if (comm_.rank() != 0) return;
  csv_ = std::make_unique<AtomicFile>(csv);
  csv_->write(concat("id,path,", columns, "\n"));
}

SampleTable::~SampleTable() = default;

void SampleTable::add(const DeviceBatch& batch, const torch::Tensor& outputs, const torch::Tensor& losses) {
  at::NoGradGuard no_grad;
  // A position, then the numbers; f64 holds positions and classes exactly. Rows that do not count have position -1.
  const auto options = torch::dtype(torch::kFloat64).device(device_);
  const auto rows = torch::full({batch.rows, 1 + number_count_}, -1, options);
  if (outputs.defined()) {
    const auto positions = torch::arange(batch.rows, options) + static_cast<double>(batch.first_position);
    rows.select(1, 0).copy_(positions.masked_fill(batch.weights.le(0), -1));
    rows.narrow(1, 1, number_count_).copy_(numbers_of(batch, outputs, losses));
  }
  const auto all = comm_.all_gather(rows).cpu().contiguous();
  if (!csv_) return;
  const double* const end = all.const_data_ptr<double>() + all.numel();
  for (const double* row = all.const_data_ptr<double>(); row != end; row += 1 + number_count_) {
    if (row[0] < 0) continue;
    const Sample sample = dataset_->at(static_cast<uint64_t>(row[0]));
    csv_->write(concat(sample.id, ',', csv_field(sample.path), ',', fields_of(row + 1), "\n"));
  }
}

void SampleTable::commit() { csv_->commit(); }

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

OutputTable::OutputTable(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
                         const std::filesystem::path& csv, int64_t outputs)
    : SampleTable(comm, device, std::move(dataset), csv, columns_of(outputs), 1 + 2 * outputs), outputs_(outputs) {}

torch::Tensor OutputTable::numbers_of(const DeviceBatch& batch, const torch::Tensor& outputs,
                                      const torch::Tensor& losses) const {
  const auto targets = detail::targets_of(batch, outputs_).to(torch::kFloat64);
  return torch::cat({losses.unsqueeze(1).to(torch::kFloat64), targets, outputs.to(torch::kFloat64)}, /*dim=*/1);
}

std::string OutputTable::fields_of(const double* numbers) {
  std::string fields;
  for (int64_t i = 0; i <= 2 * outputs_; ++i) fields += printed(i == 0 ? "%.6g" : ",%.9g", numbers[i]);
  return fields;
}

}  // namespace penstock
