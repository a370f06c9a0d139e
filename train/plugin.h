// Plug-in files with models and strategies, for `train --plugin FILE.so`.
#pragma once

#include <torch/version.h>

#include "core/plugin.h"

/// `PENSTOCK_TRAIN_PLUGIN();` once, in one file of a plug-in that uses LibTorch: PENSTOCK_PLUGIN() of core/plugin.h,
/// with the version of LibTorch as well.
#define PENSTOCK_TRAIN_PLUGIN() PENSTOCK_PLUGIN_NOTE(PENSTOCK_STAMP ", LibTorch " TORCH_VERSION)
