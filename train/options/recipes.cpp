// Recipes: their flags.
#include "train/options/recipes.h"

#include <map>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

/// docs/RECIPES.md has the sources and the deviations.
///
/// cifar10-94: airbench94_muon of Jordan 2024 (arXiv:2404.00498): 94.01 % in the mean of 200 runs there, in the
/// canonical CIFAR-10. Its rates are 0.24 for filters, 0.053 for biases and 0.67 for the head, and its weight decay
/// 2e-6 x 2000, divided by the rate. It adds up the losses of the 2,000 pictures of a batch, where training here takes
/// their mean: the rates of biases and head are 2,000 times as large here, and their weight decay is divided by 2,000.
/// Filters have one rate in both, because muon's steps do not depend on how large a gradient is.
///
/// cifar10-94-curriculum: the recipe E1 of Fulcrum's cifar-10-speedrun (2026): 94 % in the mean of 200 runs there, in
/// 1.83 s on an A100. Losses are added up there too, over 1,536 pictures, so that the rates of biases (0.0573) and head
/// (0.5415) are 1,536 times as large here, for 0.2255 of filters, and their decay is 1.0418e-6 divided by them. The
/// rate falls by 1/272 per step down to a twentieth, which is 258.4 of 288 steps here.
///
/// cifar10-94-resnet: bag_of_tricks.ipynb of Page 2019, "How to train your ResNet", part 8: 94.1 % in 10 epochs there.
/// It divides the rate by 512 and adds up the losses of 512 pictures. Biases have 64 times the rate and a 64th of the
/// weight decay; the average keeps 0.99^5 every 5 steps.
///
/// imagenet-resnet50-v2: the second recipe of torchvision, which its references/classification/README.md has for the
/// weights ResNet50_Weights.IMAGENET1K_V2 (80.86 % there; Vryniotis 2021, "How to train state-of-the-art models using
/// TorchVision's latest primitives"). Its average keeps 1 - (1 - 0.99998) x 1024 x 32 / 600 every 32 steps, as its
/// train.py computes it, and its sampler takes 1,281,167 / 256 x 256 rows in an epoch, of which four are one picture.
///
/// imagenet-vit-s16: vit_s16_i1k.py of big_vision, for Beyer, Zhai, Kolesnikov 2022 (arXiv:2205.01580): 76.7 % after 90
/// epochs there with a linear head, as here. Its weight decay of 1e-4 is not multiplied by the rate of 1e-3, as that of
/// adamw is; its RandAugment(2, 10) has ten levels, of which 10 is the last one, as 30 is here; and 7.9936 epochs of
/// 1,251 steps are its warm-up of 10,000 steps.
///
/// The flags are as a user would type them, where no value has a space in it.
const std::map<std::string, std::string>& all_recipes() {
  static const std::map<std::string, std::string> recipes{
      {"cifar10-94",
       "--arch airbench --epochs 8 --batch-size 2000 --tail drop "
       "--augment alternating-flip,crop(pad=2,border=reflect) --label-smoothing 0.2 "
       "--optimizer muon(momentum=0.6,sgd-momentum=0.85,steps=3,layers=conv,normalize=true) --lr 0.24 "
       "--schedule triangular(peak=0,end=0) --layer-lr head=5583.3333 --weight-decay 2.9850746e-06 "
       "--bias-lr 441.66667 --bias-decay 3.7735849e-05 --tta flip-translate --eval-at-end"},
      {"cifar10-94-curriculum",
       "--arch airbench(activation=silu,norm-momentum=0.4434) --epochs 9 --batch-size 1536 --tail drop "
       "--augment alternating-flip,color-jitter(brightness=0.073,contrast=0.13),resize(size=32,filter=bilinear),"
       "crop(pad=2,border=reflect) "
       "--size-schedule 0:24,3:28,6:32 --label-smoothing 0.09 "
       "--optimizer muon(momentum=0.655,sgd-momentum=0.825,steps=3,coefficients=3.4576:-4.7391:2.0843,layers=conv,"
       "normalize=true) "
       "--lr 0.2255 --schedule triangular(peak=0,end=0.05,rest=0.1028) --layer-lr head=3688.4434 "
       "--weight-decay 1.9239151e-06 --bias-lr 390.30067 --bias-decay 1.8181501e-05 --tta flip-translate "
       "--eval-at-end"},
      {"cifar10-94-resnet",
       "--arch bag-of-tricks-resnet --epochs 10 --batch-size 512 --tail drop "
       "--augment flip,crop(pad=4,border=reflect) --label-smoothing 0.2 --optimizer sgd(nesterov=true) "
       "--momentum 0.9 --lr 1 --schedule triangular(peak=0.2,end=0.1,rest=0.2) --weight-decay 0.0005 --bias-lr 64 "
       "--bias-decay 7.8125e-06 --average ema(decay=0.95099005,every=5,beside=false) --tta flip --eval-at-end"},
      {"imagenet-resnet50-v2",
       "--arch resnet50 --epochs 600 --batch-size 1024 --sampler repeat(n=4,rows=1281024) "
       "--augment random-resized-crop(size=224),flip,trivial-augment(filter=bilinear),erase(p=0.1,value=0.45),"
       "normalize,mixup(alpha=0.2),cutmix(alpha=1,switch=0.5) "
       "--size-schedule 0:176 --eval-augment resize(size=232),center-crop(size=224),normalize --label-smoothing 0.1 "
       "--optimizer sgd --momentum 0.9 --lr 0.5 --schedule cosine(warmup=5,warmup-start=0.01,per=epoch) "
       "--weight-decay 2e-05 --bias-decay 0 --average ema(decay=0.9989077333,every=32)"},
      {"imagenet-vit-s16",
       "--arch vit-s16(pool=mean,positions=sincos2d) --epochs 90 --batch-size 1024 --tail drop "
       "--augment random-resized-crop(size=224,scale=0.05:1),flip,rand-augment(ops=2,magnitude=30,fill=128),"
       "normalize(mean=0.5,std=0.5),mixup(alpha=0.2) "
       "--optimizer adamw --lr 0.001 --schedule cosine(warmup=7.9936,warmup-start=0) --weight-decay 0.1 "
       "--no-decay norm,bias,token,position,scale --clip-grad norm=1.0"}};
  return recipes;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, flags] : all_recipes()) names.push_back(name);
  return names;
}

std::vector<std::string> recipe_flags(const std::string& name) {
  if (name.empty()) return {};
  const auto found = all_recipes().find(name);
  if (found == all_recipes().end())
    throw config_error(concat("--recipe: ", unknown_name("recipe", name, recipe_names())));
  return split(found->second, ' ');
}

std::string recipe_text(const std::string& name) {
  std::vector<std::string> words;
  for (const auto& word : recipe_flags(name))
    words.push_back(word.find('(') == std::string::npos ? word : concat("'", word, "'"));
  return join(words, " ");
}

}  // namespace penstock
