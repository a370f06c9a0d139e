// logits ARCH CLASSES WEIGHTS INPUT OUTPUT: writes into OUTPUT the logits that a model with the weights WEIGHTS gives
// for the tensor `images` in INPUT.
#include "core/error.h"
#include "tools/cli.h"
#include "train/nn/model.h"
#include "train/nn/pretrained.h"
#include "train/tensor/tensor_file.h"

int main(int argc, char** argv) {
  using namespace penstock;
  return run_tool("logits", [&] {
    if (argc != 6) throw config_error("logits: wrong number of arguments; expected ARCH CLASSES WEIGHTS INPUT OUTPUT");
    const auto images = read_tensors(argv[4]).tensors.at("images");
    const ModelShape shape{images.size(1), images.size(2), images.size(3), std::stoll(argv[2])};
    const auto model = ModelRegistry::make(parse_spec("arch", argv[1]), shape);
    load_pretrained(*model, argv[3]);
    model->eval();
    at::NoGradGuard no_grad;
    write_tensors(argv[5], {{"logits", model->forward(images)}});
    return 0;
  });
}
