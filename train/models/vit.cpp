// vit, vit-s16, vit-b16: Vision Transformers.
#include <torch/nn/init.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/attention.h"
#include "train/nn/drop.h"
#include "train/nn/initial_weights.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

namespace init = torch::nn::init;
using torch::Tensor;

struct VitSizes {
  int patch, width, depth, heads, mlp;  // patch: pixels of a side; mlp: the width of the hidden layer
};

struct VitOptions {
  VitSizes sizes;
  bool has_class_token = true, has_fixed_positions = false;
  double drop_path = 0, dropout = 0;
};

/// Numbers that tell the layers that draw random numbers apart: 0 for the positions, then eight for each encoder layer.
constexpr int64_t kDropsOfALayer = 8;

/// A linear layer of the MLP: Xavier's weights, and biases near 0.
Linear mlp_layer(const std::string& path, int64_t inputs, int64_t outputs) {
  Linear linear(inputs, outputs);
  detail::draws_later(linear->weight);
  detail::draw(path + ".weight", linear->weight, [](Tensor weight) { init::xavier_uniform_(std::move(weight)); });
  detail::draw(path + ".bias", linear->bias, [](Tensor bias) { init::normal_(std::move(bias), 0, 1e-6); });
  return linear;
}

/// x + attention(norm(x)), and the same with the MLP.
class EncoderLayerImpl : public torch::nn::Module {
 public:
  EncoderLayerImpl(const std::string& path, const VitOptions& options, int64_t index) {
    const auto& sizes = options.sizes;
    const int64_t first_drop = 1 + kDropsOfALayer * index;
    const double rate = detail::drop_path_rate(options.drop_path, index, sizes.depth);
    norm1_ = register_module("ln_1", LayerNorm(sizes.width));
    attention_ = register_module("self_attention", Attention(path + ".self_attention", sizes.width, sizes.heads));
    norm2_ = register_module("ln_2", LayerNorm(sizes.width));
    auto& mlp = *register_module("mlp", std::make_shared<torch::nn::Module>());
    hidden_ = mlp.register_module("0", mlp_layer(path + ".mlp.0", sizes.width, sizes.mlp));
    last_ = mlp.register_module("3", mlp_layer(path + ".mlp.3", sizes.mlp, sizes.width));
    after_attention_ = register_module("dropout", Dropout(options.dropout, first_drop));
    after_hidden_ = mlp.register_module("2", Dropout(options.dropout, first_drop + 1));
    after_last_ = mlp.register_module("4", Dropout(options.dropout, first_drop + 2));
    path1_ = register_module("drop_path1", DropPath(rate, first_drop + 3));
    path2_ = register_module("drop_path2", DropPath(rate, first_drop + 4));
  }

  Tensor forward(const Tensor& x) {
    const auto y = x + path1_(after_attention_(attention_(norm1_(x))));
    const auto hidden = after_hidden_(torch::gelu(hidden_->forward_rounded(norm2_(y))));
    return y + path2_(after_last_(last_(hidden)));
  }

 private:
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  Attention attention_{nullptr};
  Linear hidden_{nullptr}, last_{nullptr};
  Dropout after_attention_{nullptr}, after_hidden_{nullptr}, after_last_{nullptr};
  DropPath path1_{nullptr}, path2_{nullptr};
};
TORCH_MODULE(EncoderLayer);

/// rows * columns x width: the sines and cosines of the column and of the row at width / 4 frequencies each, from 1 to
/// 1 / 10,000 (Chen, Xie, He 2021, MoCo v3, as Beyer et al. 2022 have it).
Tensor sincos2d(int64_t rows, int64_t columns, int64_t width) {
  const auto numbers = torch::dtype(torch::kFloat64);
  const auto frequencies =
      torch::pow(10'000.0, torch::arange(width / 4, numbers) / -static_cast<double>(width / 4 - 1));
  const auto y = torch::arange(rows, numbers).repeat_interleave(columns).outer(frequencies);
  const auto x = torch::arange(columns, numbers).repeat({rows}).outer(frequencies);
  return torch::cat({x.sin(), x.cos(), y.sin(), y.cos()}, 1).to(torch::kFloat32);
}

/// The module `encoder`, which has the positions and all layers; blocks run the layers.
class EncoderImpl : public torch::nn::Module, public InPrecision {
 public:
  EncoderImpl(const VitOptions& options, int64_t rows, int64_t columns) {
    const int64_t width = options.sizes.width, tokens = rows * columns, extra = options.has_class_token ? 1 : 0;
    positions_ = register_parameter("pos_embedding", torch::empty({1, extra + tokens, width}),
                                    /*requires_grad=*/!options.has_fixed_positions);
    detail::draws_later(positions_);
    detail::draw("encoder.pos_embedding", positions_, [&](Tensor positions) {
      const at::NoGradGuard no_grad;
      if (!options.has_fixed_positions) return void(positions.normal_(0, 0.02));
      positions.zero_()[0].narrow(0, extra, tokens).copy_(sincos2d(rows, columns, width));
    });
    dropout_ = register_module("dropout", Dropout(options.dropout, 0));
  }

  /// `maps`: N x width x rows x columns, of a convolution. Gives N x tokens x width. `token` may be undefined.
  Tensor embed(const Tensor& maps, const Tensor& token) {
    const auto patches = widened(maps, positions_.scalar_type()).flatten(2).transpose(1, 2);
    const auto tokens =
        token.defined() ? torch::cat({token.expand({maps.size(0), -1, -1}), patches}, 1) : patches.contiguous();
    return dropout_(tokens + positions_);
  }

 private:
  Tensor positions_;
  Dropout dropout_{nullptr};
};
TORCH_MODULE(Encoder);

/// The network of Dosovitskiy et al. 2021, "An image is worth 16x16 words", with torchvision's names, initialisation
/// and eps of LayerNorm: patches are projected by a convolution, a class token stands before them, learned positions
/// are added, and the head reads the class token after `depth` pre-norm encoder layers and a LayerNorm. Any picture
/// whose sides the patch divides; weights for one size do not fit another.
///
/// pool=mean: no class token, and the head reads the mean over the tokens; positions=sincos2d: fixed positions, as in
/// Beyer, Zhai, Kolesnikov 2022, "Better plain ViT baselines for ImageNet-1k". GELU is exact, which there is its tanh
/// approximation. dropout: after the positions, after attention and after both linear layers, as torchvision has it;
/// drop-path: of both branches of a layer, with rates that rise from 0 to the given one, as timm has it.
///
/// Stages: conv_proj, each encoder layer, encoder.ln with the pooling, and the head.
class Vit final : public Model {
 public:
  Vit(const VitOptions& options, const ModelShape& shape) {
    const auto& sizes = options.sizes;
    const auto token = add_token(options);
    Conv2d projection = add_projection(sizes, shape.channels);
    Encoder encoder =
        register_module("encoder", Encoder(options, shape.height / sizes.patch, shape.width / sizes.patch));
    std::vector<std::string> modules{"conv_proj", "encoder.pos_embedding", "encoder.dropout"};
    if (token.defined()) modules.insert(modules.begin(), "class_token");
    add_block("conv_proj", modules,
              [projection, encoder, token](const Tensor& x) mutable { return encoder->embed(projection(x), token); });
    auto& layers = *encoder->register_module("layers", std::make_shared<torch::nn::Module>());
    for (int64_t index = 0; index < sizes.depth; ++index) {
      const std::string name = concat("encoder_layer_", index), path = "encoder.layers." + name;
      EncoderLayer layer = layers.register_module(name, EncoderLayer(path, options, index));
      add_block(path, {path}, [layer](const Tensor& x) mutable { return layer(x); });
    }
    LayerNorm norm = encoder->register_module("ln", LayerNorm(sizes.width));
    add_block(
        "encoder.ln", {"encoder.ln"},
        [norm, has_token = token.defined()](const Tensor& x) mutable {
          const auto y = norm(x);
          return has_token ? y.select(1, 0) : y.mean(1);
        },
        /*has_rate_of_next=*/true);
    add_head(sizes.width, shape.classes);
  }

  bool rounds_images() const override { return true; }

 private:
  Tensor add_token(const VitOptions& options) {
    if (!options.has_class_token) return {};
    const auto token = register_parameter("class_token", torch::zeros({1, 1, options.sizes.width}));
    detail::draw("class_token", token, [](Tensor zeros) { init::zeros_(std::move(zeros)); });
    return token;
  }

  Conv2d add_projection(const VitSizes& sizes, int64_t channels) {
    Conv2d projection = register_module(
        "conv_proj", Conv2d(torch::nn::Conv2dOptions(channels, sizes.width, sizes.patch).stride(sizes.patch)));
    detail::draws_later(projection->weight);
    detail::draw("conv_proj.weight", projection->weight,
                 detail::truncated_normal(std::sqrt(1.0 / static_cast<double>(channels * sizes.patch * sizes.patch))));
    detail::draw("conv_proj.bias", projection->bias, [](Tensor bias) { init::zeros_(std::move(bias)); });
    return projection;
  }

  void add_head(int64_t width, int64_t classes) {
    auto& heads = *register_module("heads", std::make_shared<torch::nn::Module>());
    Linear head = heads.register_module("head", Linear(width, classes));
    init::zeros_(head->weight);
    init::zeros_(head->bias);
    detail::drawn("heads.head", *head);
    add_block("heads", {"heads"}, [head](const Tensor& x) mutable { return head(x); });
  }
};

void check_sizes(const Spec& spec, const VitOptions& options, const ModelShape& shape) {
  const auto& [patch, width, depth, heads, mlp] = options.sizes;
  const auto refuse = [&](const auto&... fact) { throw config_error(concat(spec.where(), ": ", fact...)); };
  constexpr int kMost = 65'536;
  const std::pair<const char*, int> numbers[] = {
      {"patch", patch}, {"width", width}, {"depth", depth}, {"heads", heads}, {"mlp", mlp}};
  for (const auto& [key, value] : numbers)
    if (value < 1 || value > kMost) refuse(key, " is ", value, "; expected 1 to ", kMost);
  if (width % heads != 0)
    refuse("width is ", width, " with ", heads, " heads; expected a width that ", heads, " divides");
  if (options.has_fixed_positions && (width % 4 != 0 || width < 8))
    refuse("width is ", width, " with positions=sincos2d; expected 8 or more, and a number that 4 divides");
  if (shape.height % patch != 0 || shape.width % patch != 0)
    refuse("pictures are ", shape.width, " x ", shape.height, " and patches ", patch, " x ", patch,
           "; expected pictures whose sides ", patch, " divides");
}

std::unique_ptr<Model> make_vit(const Spec& spec, const VitSizes& sizes, const ModelShape& shape) {
  const VitOptions options{.sizes = sizes,
                           .has_class_token = !spec.is_second("pool", "token", "mean"),
                           .has_fixed_positions = spec.is_second("positions", "learned", "sincos2d"),
                           .drop_path = detail::drop_rate(spec, "drop-path"),
                           .dropout = detail::drop_rate(spec, "dropout")};
  check_sizes(spec, options, shape);
  return std::make_unique<Vit>(options, shape);
}

constexpr VitSizes kSmall{.patch = 16, .width = 384, .depth = 12, .heads = 6, .mlp = 1536};
constexpr VitSizes kBase{.patch = 16, .width = 768, .depth = 12, .heads = 12, .mlp = 3072};

constexpr const char* kHelp =
    "pool=token|mean, positions=learned|sincos2d, dropout=0, and drop-path=0, the rate of stochastic depth of the last "
    "layer; for pictures whose sides the patch divides";

const Registered<ModelKind> kVit{
    "vit",
    {"patch", "width", "depth", "heads", "mlp", "pool", "positions", "drop-path", "dropout"},
    concat("a Vision Transformer with torchvision's parameter names: patch=16,width=384,depth=12,heads=6,mlp=1536; ",
           kHelp),
    [](const Spec& spec, const ModelShape& shape) {
      const VitSizes sizes{.patch = spec.get("patch", kSmall.patch),
                           .width = spec.get("width", kSmall.width),
                           .depth = spec.get("depth", kSmall.depth),
                           .heads = spec.get("heads", kSmall.heads),
                           .mlp = spec.get("mlp", kSmall.mlp)};
      return make_vit(spec, sizes, shape);
    }};

const Registered<ModelKind> kVitS16{
    "vit-s16",
    {"pool", "positions", "drop-path", "dropout"},
    concat("vit of 22 million parameters: ", kHelp),
    [](const Spec& spec, const ModelShape& shape) { return make_vit(spec, kSmall, shape); }};

const Registered<ModelKind> kVitB16{
    "vit-b16",
    {"pool", "positions", "drop-path", "dropout"},
    concat("vit of 86 million parameters, torchvision's vit_b_16: ", kHelp),
    [](const Spec& spec, const ModelShape& shape) { return make_vit(spec, kBase, shape); }};

}  // namespace
}  // namespace penstock
