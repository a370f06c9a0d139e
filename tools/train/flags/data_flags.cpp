// The flags of `train` about data, in the order of --help.
#include "tools/train/flags/data_flags.h"

#include <filesystem>

#include "augment/transform.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/sources/source.h"
#include "tools/cache_flags.h"
#include "tools/loader_help.h"

namespace penstock {

void add_data_flags(CLI::App& app, TrainOptions& o) {
  const auto group = "Data";
  app.add_option("--data", o.data,
                 concat("folder of a packed data set; or a source, which is packed into --cache once: SOURCE:DIR or "
                        "SOURCE(KEY=VALUE,...):DIR, for example image-folder:photos, or an embedded source without "
                        "DIR, for example digits(count=500). Sources: ",
                        join(SourceRegistry::names()),
                        ". A folder that has the name of a source is taken if it holds a packed data set"))
      ->capture_default_str()
      ->group(group);
  add_also_option(app, o.also, ". Evaluations use the test split of --data")->group(group);
  app.add_option("--split", o.split,
                 "split to train on: train, test or all; evaluations use the split test, if there is one. With -e, the "
                 "split to evaluate (default: test)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--augment", o.augment,
                 "transforms in their order, for example 'affine(degrees=10),flip(p=0.5)'; normalize is added if it is "
                 "missing, with the data set's mean and deviation. Known transforms:" +
                     help_lines<TransformRegistry>())
      ->group(group);
  app.add_option(
         "--eval-augment", o.eval_augment,
         "transforms of evaluations (default: resize, center-crop and normalize as in --augment; "
         "random-resized-crop(size=224) becomes resize(size=256),center-crop(size=224), and other sizes likewise)")
      ->group(group);
  app.add_option("--size-schedule", o.size_schedule,
                 size_schedule_help("--augment") +
                     ". Evaluations keep the size that --augment states. The model must take pictures of any size, as "
                     "resnet18 does")
      ->group(group);
  app.add_option("--subset", o.subset, "of the split that is trained on, " + subset_help())->group(group);
  app.add_option("--exclude-ids", o.exclude_ids, kExcludeHelp)->group(group);
  app.add_option("--sampler", o.sampler, sampler_help())->group(group);
  app.add_option("--shuffle", o.shuffle, kShuffleHelp)->capture_default_str()->group(group);
  app.add_option("--tail", o.tail, kTailHelp)->capture_default_str()->group(group);
  app.add_option("-b,--batch-size", o.batch_size, "samples per step, over all ranks")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "-j,--workers", o.workers,
         "threads per rank that make batches; 0: the training thread makes them itself (default: 1; with CUDA one less "
         "than the rank has cores, 1 to 8)")
      ->group(group);
  app.add_option("--prefetch", o.prefetch, "batches that the workers make ahead")->capture_default_str()->group(group);
  app.add_flag(
      "--resident", o.is_resident,
      "keep all pictures in the memory of the device and make the batches there; needs pictures that are stored raw or "
      "as coefficients (shardprep pack --encode raw or coef), and are of one size after the transforms");
  app.get_option("--resident")->group(group);
  app.add_flag("--graph", o.captures_steps,
               "with --resident on CUDA: capture a step, from the plans of its batch to the gradients, once as a CUDA "
               "graph, and replay it in every step; the bits are those of a run without it. Where a step cannot be "
               "captured, a line says why, and steps run without a graph");
  app.get_option("--graph")->group(group);
  app.add_option(
         "--layout", o.layout,
         "pixels that the loader makes. f32: normalised; u8: a quarter of the bytes, which the device then normalises")
      ->capture_default_str()
      ->group(group);
  app.add_option("--decode", o.decode, kDecodeHelp)->capture_default_str()->group(group);
  app.add_option("--dct-scale", o.dct_scale,
                 dct_scale_help("auto: in training, not in evaluation; always: in both; off: never"))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--on-corrupt", o.on_corrupt,
         concat(kOnCorruptHelp,
                ", decided by all ranks together. OUT/quarantine.jsonl names the samples. Evaluations mask where "
                "training substitutes"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--cache", o.cache, "folder for packed sources (default: ${XDG_CACHE_HOME:-~/.cache}/penstock)")
      ->group(group);
  app.add_flag("--repack", o.repacks,
               "pack the source of --data anew; without it what --cache has of it is used, unless one of its files has "
               "changed");
  app.get_option("--repack")->group(group);
  add_cache_flags(app, o.cache_dir, o.cache_limit, group);
}

void put_behind_link(const std::string& speed, TrainOptions& options) {
  const auto behind = [&](const std::string& folder) {
    std::error_code ignored;
    if (!folder.starts_with(kSimScheme) && is_local(folder) && !std::filesystem::exists(folder, ignored))
      throw config_error(concat("--sim-link: is ", in_quotes(speed), " with --data ", folder,
                                ", which is no folder; expected a packed data set"));
    return behind_sim_link("--sim-link:", speed, folder);
  };
  options.data = behind(options.data);
  for (auto& also : options.also) also = behind(also);
}

}  // namespace penstock
