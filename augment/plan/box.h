// Box: a rectangle around an object of a picture.
#pragma once

namespace penstock {

/// Continuous coordinates: pixel edges are whole numbers, and the whole picture is 0, 0, width, height.
struct Box {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool operator==(const Box&) const = default;
};

}  // namespace penstock
