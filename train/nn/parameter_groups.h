// Parameter groups: what --bias-lr, --bias-decay and --layer-decay are for.
#pragma once

#include <map>
#include <string>

namespace penstock {

class Model;

/// Multiplies the factors of the learning rate of biases, by parameter, by `factor` (Page 2019, "How to train your
/// ResNet", part 8). No entry counts as 1. A bias is a parameter of one dimension or none: those of convolutions and
/// linear layers, and both of BatchNorm.
void scale_biases(const Model& model, double factor, std::map<std::string, double>& rate_factors);

/// Multiplies the factors of the learning rate, by parameter, by decay^d, where d is the number of blocks with
/// parameters between a block and the end: the head keeps its rate (Clark et al. 2020, ELECTRA, appendix A; Bao et al.
/// 2022, BEiT; timm's param_groups_layer_decay). Blocks are Model::blocks(): the stem, a residual block and the head
/// count as one each.
void decay_by_layer(const Model& model, double decay, std::map<std::string, double>& rate_factors);

/// `decay` for every bias; nothing if it is below 0. Biases without weight decay: Goyal et al. 2017, sec. 5.3, and He
/// et al. 2019, "Bag of tricks for image classification", sec. 3.1.
std::map<std::string, double> bias_decays(const Model& model, double decay);

}  // namespace penstock
