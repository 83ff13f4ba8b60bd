// What decoding refuses, and how it says so. What it makes of good files: against_pillow.py.
#include "fuzz/image_samples.h"
#include "testing.h"
#include "trainer/images/decode.h"
#include "trainer/images/encode.h"
#include "trainer/images/image_error.h"

namespace normball::testing {
namespace {

using namespace trainer::images;

FileBytes bytes(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

Image decoded(const std::string& file) {
  Image image;
  decode(bytes(file), "dog.jpg", image);
  return image;
}

void expect_refused(const std::string& file, const std::vector<std::string>& parts) {
  expect_error<ImageError>([&] { decoded(file); }, parts);
}

std::string changed(std::string file, size_t at, std::initializer_list<int> values) {
  for (const int value : values) file[at++] = static_cast<char>(value);
  return file;
}

TEST(ImageDecodeTest, WhatIsNoImageIsNamed) {
  expect_refused("", {"[decode_image] dog.jpg: is empty"});
  expect_refused("GIF89a....", {"dog.jpg", "neither a JPEG nor a PNG nor a WebP"});
  expect_refused("<html>not found</html>", {"dog.jpg", "remove it"});
}

TEST(ImageDecodeTest, TruncationIsNoticed) {
  for (const auto& file : {fuzz::jpeg_file({}), fuzz::jpeg_file({.progressive = true}),
                           fuzz::png_file({}), fuzz::png_file({.interlaced = true}),
                           fuzz::webp_file(false, false), fuzz::webp_file(true, true)}) {
    EXPECT_NO_THROW(decoded(file));
    // Not the end alone: a JPEG without its last marker has all its pixels.
    for (const double share : {0.1, 0.5, 0.8, 0.95}) {
      SCOPED_TRACE(share);
      const std::string part =
          file.substr(0, static_cast<size_t>(share * static_cast<double>(file.size())));
      expect_refused(part, {"dog.jpg", "is not a whole "});
    }
  }
}

// Width and height of a JPEG are after FF C0 (FF C2 in progressive ones), a length and a depth.
std::string jpeg_of_size(bool progressive, int width, int height) {
  std::string file = fuzz::jpeg_file({.progressive = progressive});
  const size_t frame = file.find(progressive ? "\xff\xc2" : "\xff\xc0");
  return changed(file, frame + 5, {height >> 8, height & 255, width >> 8, width & 255});
}

TEST(ImageDecodeTest, AHeaderThatPromisesTooMuchIsNotBelieved) {
  for (const bool progressive : {false, true}) {
    expect_refused(jpeg_of_size(progressive, 65500, 65500),
                   {"dog.jpg", "65500x65500", "more than the 67108864"});
    expect_refused(jpeg_of_size(progressive, 8000, 8000), {"8000x8000", "do not fit into"});
  }
  // A PNG's are at 16; its checksum is looked at first.
  expect_refused(changed(fuzz::png_file({}), 16, {0x7f, 0xff, 0, 0}),
                 {"dog.jpg", "not a whole PNG"});
  // A WebP's lossless header: 14 bits each, from 21.
  expect_refused(changed(fuzz::webp_file(true, false), 21, {0xff, 0xff, 0xff, 0x0f}),
                 {"dog.jpg", "16384x16384"});
}

TEST(ImageDecodeTest, APartLiesWhereItSays) {
  const std::string file = fuzz::jpeg_file({}, 640, 480);
  const Image whole = decoded(file);
  Image part;
  for (const Region& region :
       {Region{0, 0, 640, 480}, Region{100, 50, 500, 400}, Region{639, 479, 1, 1}}) {
    const DecodedPart found = decode_part(bytes(file), "dog.jpg", region, 2000, part);
    EXPECT_EQ(found.inside.width, region.width);
    for (int y = 0; y < region.height; ++y) {
      const auto* expected = whole.row(region.top + y) + 4 * region.left;
      ASSERT_TRUE(std::equal(expected, expected + 4 * region.width,
                             part.row(found.inside.top + y) + 4 * found.inside.left));
    }
  }
  const DecodedPart half = decode_part(bytes(file), "dog.jpg", {101, 51, 402, 402}, 200, part);
  EXPECT_NEAR(half.box.right - half.box.left, 201, 1e-9);
  EXPECT_EQ(half.inside.width, 202) << "pixels that are touched";
  EXPECT_LT(part.width, 320);
}

TEST(ImageDecodeTest, DamageBelowAPartIsOnlySeenInTheWhole) {
  const std::string file = fuzz::jpeg_file({}, 200, 400);
  const std::string cut = file.substr(0, file.size() * 3 / 4);
  Image image;
  EXPECT_NO_THROW(decode_part(bytes(cut), "dog.jpg", {0, 0, 100, 100}, 100, image));
  EXPECT_THROW(decode_part(bytes(cut), "dog.jpg", {0, 300, 100, 100}, 100, image), ImageError);
  EXPECT_THROW(decoded(cut), ImageError);
}

TEST(ImageDecodeTest, WhatIsEncodedIsDecoded) {
  Image image;
  image.reshape(7, 5);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(i % 4 == 3 ? 255 : 3 * i);
  const auto png = encode_png(image);
  Image back;
  decode(png, "x.png", back);
  EXPECT_EQ(back.pixels, image.pixels);
  EXPECT_EQ(read_header(encode_jpeg(image, 90), "x").format, Format::Jpeg);
}

}  // namespace
}  // namespace normball::testing
