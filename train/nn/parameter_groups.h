// Parameter groups: what --bias-lr, --bias-decay, --no-decay and --layer-decay are for, and which weights are matrices.
#pragma once

#include <map>
#include <set>
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
/// count as one each, and a block with has_rate_of_next as a part of the one after it. Deviation: timm has the last
/// norm of a Vision Transformer at the rate of the last layer; it has that of the head here, as in BEiT.
void decay_by_layer(const Model& model, double decay, std::map<std::string, double>& rate_factors);

/// `decay` for every bias; nothing if it is below 0. Biases without weight decay: Goyal et al. 2017, sec. 5.3, and He
/// et al. 2019, "Bag of tricks for image classification", sec. 3.1.
std::map<std::string, double> bias_decays(const Model& model, double decay);

/// Kinds of parameters for --no-decay: norm (all of a module whose weight has one dimension), bias (those of other
/// modules), token (`class_token`), position (`pos_embedding`) and scale (`layer_scale`).
using DecayKinds = std::set<std::string>;
/// The kinds in a list such as `norm,bias`; "" is empty. Throws config_error for an unknown kind.
DecayKinds parse_no_decay(const std::string& list);
/// Sets the weight decay of all parameters of these kinds to 0.
void leave_out_of_decay(const Model& model, const DecayKinds& kinds, std::map<std::string, double>& decays);

/// Parameters of two dimensions or more that muon does not change as matrices: whatever is not the weight of a
/// convolution or a linear layer, and the head (Jordan et al. 2024, which leaves embeddings and the head to another
/// optimiser).
std::set<std::string> no_matrices(const Model& model);

}  // namespace penstock
