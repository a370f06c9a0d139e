// The flags that recipes are made of.
#include "tools/train/flags/recipe_flags.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "tools/train/flags/earlier_flags.h"
#include "train/options/recipes.h"
#include "train/run/program.h"

namespace penstock {

void add_recipe_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Model and optimisation";
  app.add_option("--recipe", o.recipe,
                 concat("take the flags of this recipe, which are printed; those that are typed as well replace them: ",
                        join(recipe_names())))
      ->each([](const std::string& given) {
        if (given.empty()) throw config_error(concat("--recipe: ", unknown_name("recipe", given, recipe_names())));
      })
      ->group(group);
  app.add_option("--precision", o.precision,
                 "what convolutions and linear layers compute in: f32; tf32; bf16; f16, where gradients are scaled on "
                 "their way: by a scale that adapts, f16(init=65536,every=2000), or stays, f16(scale=1024). "
                 "Parameters, BatchNorm, logits and the loss are f32 in each")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--channels-last", o.is_channels_last,
               "convolutions keep maps and filters in memory as N x H x W x C, which GPUs in half precision want");
  app.get_option("--channels-last")->group(group);
  app.add_option("--bias-decay", o.bias_decay,
                 "weight decay of parameters with one dimension: biases, and those of BatchNorm (default: "
                 "--weight-decay)")
      ->group(group);
  app.add_option("--no-decay", o.no_decay,
                 "kinds of parameters without weight decay, for example norm,bias,token,position,scale: those of "
                 "BatchNorm and LayerNorm; other biases; class tokens; learned positions; and layer_scale")
      ->group(group);
  app.add_option("--bias-lr", o.bias_rate, "factor by which --lr is multiplied for these parameters")
      ->capture_default_str()
      ->group(group);
  app.add_option("--layer-decay", o.layer_decay,
                 "factor by which --lr is multiplied from each block of the model to the one before it; the last one "
                 "has --lr itself, and the norm before it")
      ->capture_default_str()
      ->group(group);
  app.add_option("--loss", o.loss,
                 concat("what training makes small, and what evaluations and predictions say. Losses:", loss_lines()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--label-smoothing", o.label_smoothing,
                 "share of each label that the loss of training divides evenly among all classes, 0 to 1")
      ->capture_default_str()
      ->group(group);
  app.add_option("--clip-grad", o.clip,
                 "what gradients are brought to before the update: norm=1.0, that of all of them together; value=0.5, "
                 "each number; agc=0.01, that of each filter or row in proportion to its parameters")
      ->group(group);
  app.add_option(
         "--average", o.average,
         "mean of the weights of earlier steps, which is evaluated and saved: 'ema(decay=0.99,every=5)' keeps 0.99 of "
         "it "
         "every 5 steps, and the weights are evaluated and saved beside it unless beside=false; "
         "'lookahead(decay=0.99,every=5)' also goes "
         "on from it; with power=P, decay is multiplied by the share of the steps that are done, to the power P")
      ->group(group);
  app.add_option("--tta", o.test_views,
                 "views of a picture over which an evaluation takes the mean of the logits: none; flip: it and its "
                 "mirror image; flip-translate: these, and both moved by a pixel up and left, and down and right")
      ->capture_default_str()
      ->group(group);
}

std::vector<std::string> typed_recipe(const std::vector<std::string>& arguments) {
  const std::string name = typed_value(arguments, "--recipe");
  const auto known = recipe_names();
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  return is_known ? recipe_flags(name) : std::vector<std::string>();
}

namespace {

/// The name of the model of a recipe, without its keys.
std::string arch_of(const std::vector<std::string>& flags) {
  const std::string arch = typed_value(flags, "--arch");
  return arch.substr(0, arch.find('('));
}

/// ", --recipe NAME" for the recipe that was made for this model; "" if there is none.
std::string recipe_for(const std::string& arch) {
  for (const auto& name : recipe_names())
    if (arch_of(recipe_flags(name)) == arch) return concat(", --recipe ", name);
  return "";
}

}  // namespace

void check_recipe(const CLI::App& app, const TrainOptions& options) {
  const auto flags = recipe_flags(options.recipe);  // throws
  const std::string arch = arch_of(flags), rates = typed_value(flags, "--layer-lr");
  const std::string& typed_arch = options.arch->name();
  if (!rates.empty() && app.count("--layer-lr") == 0 && typed_arch != arch)
    throw config_error(concat("--recipe ", options.recipe, " with --arch ", options.arch, ": its --layer-lr ", rates,
                              " is for --arch ", arch, "; expected that one", recipe_for(typed_arch),
                              ", or --layer-lr for ", options.arch));
  if (app.count("--bias-decay") > 0 && options.bias_decay < 0)
    throw config_error(concat("--bias-decay is ", options.bias_decay, "; expected 0 or more and less than inf"));
  const bool opens_data = !options.prints_config && !options.prints_schedule;
  if (!options.recipe.empty() && opens_data && options.data.empty())
    throw config_error(concat("--recipe ", options.recipe, ": without --data; expected a folder of packed data, or a ",
                              "source as image-folder:DIR (--print-config prints the flags without data)"));
}

}  // namespace penstock
