// SplitBackward: finds the joints, keeps what arrives there, and goes on from them.
#include "train/parallel/pipeline/split_backward.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>

namespace penstock::detail {
namespace {

using torch::autograd::Node, torch::autograd::variable_list;

/// Keeps the gradients that arrive at a node the first time. In the second half they arrive again.
class Keep final : public torch::autograd::FunctionPreHook {
 public:
  explicit Keep(std::shared_ptr<variable_list> arrived) : arrived_(std::move(arrived)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (arrived_->empty()) *arrived_ = gradients;
    return gradients;
  }

 private:
  std::shared_ptr<variable_list> arrived_;
};

/// Which nodes of a graph lead to one of them.
class Ways {
 public:
  explicit Ways(const Node* to) { leads_[to] = true; }

  bool leads(Node* from) {
    if (const auto known = leads_.find(from); known != leads_.end()) return known->second;
    bool any = false;  // every edge is followed, so that each node is known afterwards
    for (const auto& edge : from->next_edges())
      if (edge.function && leads(edge.function.get())) any = true;
    return leads_[from] = any;
  }

 private:
  std::unordered_map<const Node*, bool> leads_;
};

/// Adds the nodes without successors that can be reached from `from`: accumulators of parameters. False if a node was
/// seen before.
bool add_ends(const decltype(torch::autograd::Edge::function)& from, std::unordered_set<Node*>& seen,
              torch::autograd::edge_list& ends) {
  if (!seen.insert(from.get()).second) return false;
  if (from->next_edges().empty()) ends.emplace_back(from, 0);
  bool is_new = true;
  for (const auto& edge : from->next_edges())
    if (edge.function) is_new &= add_ends(edge.function, seen, ends);
  return is_new;
}

}  // namespace

SplitBackward::SplitBackward(const torch::Tensor& output, const torch::Tensor& gradient, const torch::Tensor& input)
    : output_(output), gradient_(gradient) {
  find_joints(torch::autograd::impl::grad_accumulator(input).get());
  torch::autograd::backward({output}, {gradient}, /*retain_graph=*/true, /*create_graph=*/false, {input});
}

void SplitBackward::find_joints(const Node* end) {
  Ways ways(end);
  std::unordered_set<Node*> on_the_way, beside;
  std::vector<NodePointer> open;
  if (output_.grad_fn()) open.push_back(output_.grad_fn());  // none where stages give back what they take
  while (!open.empty()) {
    const auto node = std::move(open.back());
    open.pop_back();
    Joint joint{node, {}, std::make_shared<variable_list>()};
    for (const auto& [next, input_number] : node->next_edges()) {
      if (!next) continue;
      if (!ways.leads(next.get())) {
        is_tree_ &= add_ends(next, beside, joint.parameters);
      } else if (on_the_way.insert(next.get()).second) {
        open.push_back(next);
      }
    }
    if (joint.parameters.empty()) continue;
    node->add_pre_hook(std::make_unique<Keep>(joint.arrived));
    joints_.push_back(std::move(joint));
  }
}

void SplitBackward::finish(const std::vector<torch::Tensor>& parameters) {
  if (parameters.empty()) return;
  if (!is_tree_) {
    torch::autograd::backward({output_}, {gradient_}, /*retain_graph=*/false, /*create_graph=*/false, parameters);
    return;
  }
  for (auto& [node, accumulators, arrived] : joints_) {
    torch::autograd::edge_list roots;
    variable_list gradients;
    for (uint32_t i = 0; i < arrived->size(); ++i) {
      if (!(*arrived)[i].defined()) continue;
      roots.emplace_back(node, i);
      gradients.push_back((*arrived)[i]);
    }
    if (!roots.empty())
      torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                            /*create_graph=*/false, /*accumulate_grad=*/true,
                                                            accumulators);
  }
}

}  // namespace penstock::detail
