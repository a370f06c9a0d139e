// own_model DATA: trains a LibTorch network of the user's own on a packed data set, with torch::optim.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <iostream>

#include "train/tensor/batch_tensors.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto dataset = penstock::Dataset::open(argv[1]);
  const auto classes = static_cast<int64_t>(dataset->manifest().class_names.size());
  const penstock::Pipeline pipeline("affine(degrees=10),normalize", dataset->manifest().statistics);
  penstock::Loader loader(dataset, pipeline, {.workers = 1, .batch_size = 32, .seed = 1});
  const auto extent = loader.extent();
  torch::manual_seed(1);
  using torch::nn::Flatten, torch::nn::Linear, torch::nn::ReLU;
  torch::nn::Sequential network(Flatten(), Linear(extent.channels * extent.height * extent.width, 64), ReLU(),
                                Linear(64, classes));
  torch::optim::Adam optimizer(network->parameters(), 1e-2);
  for (int epoch = 0; epoch < 8; ++epoch) {
    double loss_sum = 0, hits = 0;
    loader.start_epoch(epoch);
    while (auto batch = loader.next()) {
      const double count = static_cast<double>(batch->count());
      const auto tensors = penstock::take_tensors(std::move(*batch));
      const auto logits = network->forward(tensors.images);
      // Padding rows have weight 0.
      const auto losses = torch::cross_entropy_loss(logits, tensors.labels, {}, at::Reduction::None);
      const auto loss = (losses * tensors.weights).sum() / count;
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>() * count;
      hits += (logits.argmax(1).eq(tensors.labels) * tensors.weights).sum().item<double>();
    }
    const auto size = static_cast<double>(dataset->size());
    std::cout << "epoch " << epoch + 1 << " loss " << loss_sum / size << " accuracy " << hits / size << std::endl;
  }
}
