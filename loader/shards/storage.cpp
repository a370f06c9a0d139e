// The names of the forms in which pack() stores pictures.
#include "loader/shards/storage.h"

namespace penstock {

const char* encode_name(Encode encode) {
  switch (encode) {
    case Encode::kAuto:
      return "auto";
    case Encode::kCoefficients:
      return "coef";
    case Encode::kKeep:
      return "keep";
    case Encode::kJpeg:
      return "jpeg";
    case Encode::kRaw:
      return "raw";
  }
  return "";
}

const char* sixteen_bit_name(SixteenBit choice) {
  switch (choice) {
    case SixteenBit::kRefuse:
      return "refuse";
    case SixteenBit::kDrop:
      return "drop";
    case SixteenBit::kKeep:
      return "keep";
  }
  return "";
}

}  // namespace penstock
