// Old keys: keys of modes that earlier versions had, and what stands in their place.
#pragma once

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock::detail {

/// Returns `mode`. Throws config_error for a key that it had once, also where a checkpoint or a file of options has it.
inline const Spec& without_old_keys(const Spec& mode) {
  constexpr const char* kKey = "step-in-backward";
  const Spec rest = mode.without(kKey);
  if ((mode.name() == "ddp" || mode.name() == "zero") && rest.text() != mode.text())
    throw config_error(concat("--mode ", mode.name(), ": ", kKey, " is no key any more, because it saved no time; ",
                              "expected --mode '", rest.text(), "', which has the same bits"));
  return mode;
}

}  // namespace penstock::detail
