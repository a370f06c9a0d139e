// StageLink: tagged messages between neighbours.
#include "train/parallel/pipeline/stage_link.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "train/losses/target.h"

namespace penstock::detail {
namespace {

constexpr int64_t kMostDimensions = 6;
enum Column { kLabel, kWeight, kSecondLabel, kMixWeight, kColumnCount };

// Tags tell the messages between two ranks apart: the labels, the sizes of what each part takes, activations and
// gradients.
constexpr int kTargetsTag = 0, kFirstSizesTag = 1;

/// Dtype, number of dimensions after the rows, and these.
torch::Tensor packed_sizes(const torch::Tensor& activation) {
  if (activation.dim() > kMostDimensions)
    throw bug_error(concat("an activation of ", activation.dim(), " dimensions; expected at most ", kMostDimensions));
  std::vector<int64_t> numbers(2 + kMostDimensions);
  numbers[0] = static_cast<int64_t>(activation.scalar_type());
  numbers[1] = activation.dim() - 1;
  for (int64_t i = 1; i < activation.dim(); ++i) numbers[static_cast<size_t>(1 + i)] = activation.size(i);
  return torch::tensor(numbers, torch::kInt64);
}

std::string of_micro_batch(const char* what, int micro_batch) {
  return concat("the ", what, " of micro-batch ", micro_batch);
}

}  // namespace

void StageLink::send(torch::Tensor tensor, int peer, int tag, const std::string& what) {
  recorder_.note_message(what, /*is_sent=*/true, first_rank_ + pipe_.rank(), first_rank_ + peer, tag);
  auto work = pipe_.send(tensor, peer, tag, what);
  under_way_.push_back({tag, std::move(tensor), std::move(work)});
}

/// Ends the message with this tag and gives its memory back.
void StageLink::release(int tag) {
  const auto message = std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& m) { return m.tag == tag; });
  if (message == under_way_.end()) return;
  message->work->wait();
  under_way_.erase(message);
}

torch::Tensor StageLink::receive(torch::Tensor tensor, int peer, int tag, const std::string& what) {
  pipe_.receive(tensor, peer, tag, what)->wait();
  recorder_.note_message(what, /*is_sent=*/false, first_rank_ + peer, first_rank_ + pipe_.rank(), tag);
  return tensor;
}

/// The tag of the activation that `part` takes.
int StageLink::activation_tag(int part, int micro_batch) const {
  const int parts = placement_.part_count();
  return kFirstSizesTag + parts + 2 * (micro_batch * parts + part);
}

torch::Tensor StageLink::take_kept(int tag) {
  auto node = kept_.extract(tag);
  if (node.empty()) throw bug_error(concat("the message ", tag, " of this rank to itself was not sent"));
  return std::move(node.mapped());
}

void StageLink::send_activation(int part, int micro_batch, const torch::Tensor& activation) {
  const int next = part + 1, peer = placement_.rank_of(next);
  if (are_both_here(part, next)) {
    kept_.emplace(activation_tag(next, micro_batch), activation.detach());
    return;
  }
  const auto sizes = activation.sizes().slice(1);
  auto& sent = sent_[static_cast<size_t>(part)];
  if (!sent.sizes.empty() && (sizes != at::IntArrayRef(sent.sizes) || activation.scalar_type() != sent.type))
    throw bug_error(concat(of_micro_batch("activation", micro_batch), " has rows of ", activation.scalar_type(), " ",
                           sizes, ", the first one had ", sent.type, " ", at::IntArrayRef(sent.sizes),
                           "; expected a block that gives the same sizes for every batch"));
  if (sent.sizes.empty()) {
    sent = {sizes.vec(), activation.scalar_type()};
    send(packed_sizes(activation).to(device_), peer, kFirstSizesTag + next, "the sizes of activations");
  }
  activation_bytes_ = std::max(activation_bytes_, static_cast<int64_t>(activation.nbytes()));
  send(activation.detach().contiguous(), peer, activation_tag(next, micro_batch),
       of_micro_batch("activation", micro_batch));
}

torch::Tensor StageLink::receive_activation(int part, int micro_batch, int64_t rows) {
  if (are_both_here(part, part - 1)) return take_kept(activation_tag(part, micro_batch));
  const int peer = placement_.rank_of(part - 1);
  auto& [sizes, type] = received_[static_cast<size_t>(part)];
  if (sizes.empty()) {
    const auto numbers = receive(torch::empty({2 + kMostDimensions}, torch::dtype(torch::kInt64).device(device_)), peer,
                                 kFirstSizesTag + part, "the sizes of activations")
                             .cpu();
    type = static_cast<at::ScalarType>(numbers[0].item<int64_t>());
    for (int64_t i = 0; i < numbers[1].item<int64_t>(); ++i) sizes.push_back(numbers[2 + i].item<int64_t>());
  }
  auto all = sizes;
  all.insert(all.begin(), rows);
  return receive(torch::empty(all, torch::dtype(type).device(device_)), peer, activation_tag(part, micro_batch),
                 of_micro_batch("activation", micro_batch));
}

void StageLink::send_gradient(int part, int micro_batch, const torch::Tensor& gradient) {
  if (are_both_here(part, part - 1)) {
    kept_.emplace(gradient_tag(part, micro_batch), gradient);
    return;
  }
  // The peer has asked for the gradient before this one already, as a rule: it does so when its forward is through,
  // from which this rank has made a forward and a backward since.
  recorder_.mark(Phase::kBackward);
  if (last_gradient_tag_ && !keeps_gradients_) release(*last_gradient_tag_);
  recorder_.mark(Phase::kBubble);
  last_gradient_tag_ = gradient_tag(part, micro_batch);
  send(gradient.contiguous(), placement_.rank_of(part - 1), *last_gradient_tag_,
       of_micro_batch("gradient", micro_batch));
}

torch::Tensor StageLink::receive_gradient(int part, int micro_batch, const torch::Tensor& like) {
  if (are_both_here(part, part + 1)) return take_kept(gradient_tag(part + 1, micro_batch));
  auto gradient = receive(torch::empty(like.sizes(), like.options().requires_grad(false)), placement_.rank_of(part + 1),
                          gradient_tag(part + 1, micro_batch), of_micro_batch("gradient", micro_batch));
  release(activation_tag(part + 1, micro_batch));  // which has arrived, or there were no gradient
  return gradient;
}

DeviceBatch StageLink::with_targets(const DeviceBatch& batch) {
  if (pipe_.world_size() == 1) return batch;
  const int first = placement_.rank_of(0), last = placement_.rank_of(placement_.part_count() - 1);
  if (first == last) return batch;
  const auto options = torch::dtype(torch::kFloat64).device(device_);  // holds labels exactly, up to 2^53
  if (pipe_.rank() == first) {
    const auto columns = torch::full({kColumnCount + target_count_, batch.rows}, -1, options);
    columns[kLabel].copy_(batch.labels);
    columns[kWeight].copy_(batch.weights);
    if (batch.second_labels.defined()) {
      columns[kSecondLabel].copy_(batch.second_labels);
      columns[kMixWeight].copy_(batch.mix_weights);
    }
    if (target_count_ > 0)
      columns.slice(0, kColumnCount).copy_(batch.columns.at(kTargetColumn).reshape({batch.rows, target_count_}).t());
    send(columns, last, kTargetsTag, "the labels");
  }
  if (pipe_.rank() != last) return batch;
  const auto columns =
      receive(torch::empty({kColumnCount + target_count_, batch.rows}, options), first, kTargetsTag, "the labels");
  DeviceBatch complete = batch;
  complete.labels = columns[kLabel].to(torch::kInt64);
  complete.weights = columns[kWeight].to(torch::kFloat32);
  if (batch.rows > 0 && columns[kSecondLabel][0].item<double>() >= 0) {
    complete.second_labels = columns[kSecondLabel].to(torch::kInt64);
    complete.mix_weights = columns[kMixWeight].to(torch::kFloat32);
  }
  if (target_count_ > 0) complete.columns[kTargetColumn] = columns.slice(0, kColumnCount).t();
  return complete;
}

void StageLink::finish() {
  for (const auto& message : under_way_) message.work->wait();
  under_way_.clear();
  kept_.clear();
  last_gradient_tag_.reset();
}

}  // namespace penstock::detail
