// Plug-in files with models and strategies, for `train --plugin FILE.so`.
#pragma once

#include <torch/version.h>

#include "core/plugin.h"

/// A plug-in that uses LibTorch has `PENSTOCK_TRAIN_PLUGIN();` once, in one of its files. It is the PENSTOCK_PLUGIN()
/// of core/plugin.h with the version of LibTorch added.
#define PENSTOCK_TRAIN_PLUGIN() PENSTOCK_PLUGIN_NOTE(PENSTOCK_STAMP ", LibTorch " TORCH_VERSION)
