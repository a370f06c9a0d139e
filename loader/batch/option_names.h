// Option names: the words by which users choose among the options of a loader and of packing, in the tools and in
// Python.
#pragma once

#include <map>
#include <string>

#include "augment/render.h"
#include "loader/batch/loader.h"
#include "loader/codecs/codec.h"
#include "loader/order/partition.h"
#include "loader/order/shuffle.h"
#include "loader/shards/storage.h"

namespace penstock {

inline std::map<std::string, Layout> layout_names() {
  std::map<std::string, Layout> names;
  for (const Layout layout : {Layout::kF32Nchw, Layout::kU8Nhwc, Layout::kF16Nchw, Layout::kBf16Nchw, Layout::kF32Nhwc,
                              Layout::kF16Nhwc, Layout::kBf16Nhwc, Layout::kU16Nhwc})
    names.emplace(layout_name(layout), layout);
  return names;
}

inline std::map<std::string, Tail> tail_names() { return {{"pad", Tail::kPad}, {"drop", Tail::kDrop}}; }

inline std::map<std::string, OnCorrupt> on_corrupt_names() {
  return {{"fail", OnCorrupt::kFail}, {"mask", OnCorrupt::kMask}, {"substitute", OnCorrupt::kSubstitute}};
}

inline std::map<std::string, DecodePath> decode_names() {
  return {{"auto", DecodePath::kAuto},
          {"index", DecodePath::kIndex},
          {"region", DecodePath::kRegion},
          {"full", DecodePath::kFull}};
}

inline std::map<std::string, DctScale> dct_scale_names() {
  return {{"auto", DctScale::kAuto}, {"always", DctScale::kAlways}, {"off", DctScale::kOff}};
}

inline std::map<std::string, ReadAheadChoice> read_ahead_names() {
  return {{"auto", ReadAheadChoice::kAuto}, {"on", ReadAheadChoice::kOn}, {"off", ReadAheadChoice::kOff}};
}

inline std::map<std::string, SixteenBit> sixteen_bit_names() {
  std::map<std::string, SixteenBit> names;
  for (const auto choice : {SixteenBit::kRefuse, SixteenBit::kDrop, SixteenBit::kKeep})
    names.emplace(sixteen_bit_name(choice), choice);
  return names;
}

inline std::map<std::string, PixelType> pixel_type_names() {
  std::map<std::string, PixelType> names;
  for (const auto type : {PixelType::kU8, PixelType::kU16, PixelType::kF32}) names.emplace(pixel_type_name(type), type);
  return names;
}

inline std::map<std::string, Encode> encode_names() {
  std::map<std::string, Encode> names;
  for (const Encode encode : {Encode::kAuto, Encode::kCoefficients, Encode::kKeep, Encode::kJpeg, Encode::kRaw})
    names.emplace(encode_name(encode), encode);
  return names;
}

}  // namespace penstock
