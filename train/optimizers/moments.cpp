// Moments: the keys beta1, beta2 and eps.
#include "train/optimizers/moments.h"

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

MomentOptions read_moments(const Spec& spec, double eps) {
  const MomentOptions moments{spec.get("beta1", 0.9), spec.get("beta2", 0.999), spec.get("eps", eps)};
  const auto refuse = [&](const char* key, double value, const char* expected) {
    throw config_error(concat("--optimizer ", spec.name(), ": ", key, " is ", value, "; expected ", expected));
  };
  for (const auto& [key, beta] : {std::pair{"beta1", moments.beta1}, {"beta2", moments.beta2}})
    if (!(beta >= 0 && beta < 1)) refuse(key, beta, "0 or more and less than 1");
  if (!(moments.eps >= 0)) refuse("eps", moments.eps, "0 or more");
  return moments;
}

}  // namespace penstock::detail
