// decode_picture(): decodes all of a sample, and renders it with the plan that only turns it.
#include "loader/look/picture.h"

#include "augment/render.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/map_guard.h"
#include "loader/files/read_from.h"

namespace penstock {

DecodedPicture decode_picture(const Dataset& dataset, uint64_t index) {
  detail::keep_map_handler();
  const Sample sample = dataset.checked_at(index);
  const Extent& stored = sample.extent;
  const Plan plan = Plan::upright(sample.orientation, stored.height, stored.width);
  const int channels = dataset.manifest().channels;
  const PixelType type = dataset.manifest().pixels;
  DecodedPicture decoded{{plan.output_height, plan.output_width, channels}, {}, type};
  const Layout layout = own_layout(type);
  decoded.pixels.resize(rendered_bytes(layout, decoded.extent));
  DecodeScratch scratch;
  read_from(dataset, index, [&] {
    try {
      const DecodeRequest request{.region = {0, 0, stored.width, stored.height}, .channels = channels};
      const Picture picture = codec_for(sample.encoding).decode(sample, request, scratch);
      render(picture, plan, Normalization::plain(type), layout, decoded.pixels.data());
    } catch (const Error& error) {
      throw Error(error.kind(), concat(dataset.where(index), ": ", error.what()));
    }
  });
  return decoded;
}

}  // namespace penstock
