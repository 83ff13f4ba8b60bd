// What our decoders, resizing and operations make of files, for against_pillow.py. A line of input
// is one call; pictures are written as PPM.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "normball/random.h"
#include "trainer/files/bytes.h"
#include "trainer/images/augment.h"
#include "trainer/images/encode.h"

namespace {

using namespace normball::trainer::images;

Image decoded(const std::string& path) {
  Image image;
  decode(normball::trainer::files::Bytes::map(path).span(), path, image);
  return image;
}

void write(const std::string& path, const Image& image) {
  std::ofstream out(path, std::ios::binary);
  out << "P6 " << image.width << ' ' << image.height << " 255\n";
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    out.write(reinterpret_cast<const char*>(image.pixels.data() + i), 3);
  }
}

Operation operation_named(const std::string& name) {
  for (int i = 0; i < operation_count; ++i) {
    if (name_of(static_cast<Operation>(i)) == name) return static_cast<Operation>(i);
  }
  throw std::invalid_argument("no operation " + name);
}

void run(std::istringstream line) {
  std::string call, path, out, name;
  line >> call;
  if (call == "decode") {
    line >> path >> out;
    write(out, decoded(path));
  } else if (call == "part") {  // with the region that was asked for cut out
    Region region;
    int size = 0;
    line >> path >> region.left >> region.top >> region.width >> region.height >> size >> out;
    Image image, cut;
    const auto file = normball::trainer::files::Bytes::map(path);
    const DecodedPart part = decode_part(file.span(), path, region, size, image);
    cut.reshape(part.inside.width, part.inside.height);
    for (int y = 0; y < cut.height; ++y) {
      const auto* from = image.row(part.inside.top + y) + 4 * part.inside.left;
      std::copy(from, from + cut.stride(), cut.row(y));
    }
    write(out, cut);
    std::cout << part.box.left - part.inside.left << ' ' << part.box.top - part.inside.top << ' '
              << part.box.right - part.inside.left << ' ' << part.box.bottom - part.inside.top
              << '\n';
  } else if (call == "resize") {
    Region region;
    int width = 0, height = 0;
    line >> path >> region.left >> region.top >> region.width >> region.height >> width >> height >>
        name >> out;
    Image result;
    Resizer().resize(decoded(path), box_of(region), region, width, height,
                     name == "bicubic" ? Filter::Bicubic : Filter::Bilinear, result);
    write(out, result);
  } else if (call == "middle") {
    AugmentOptions options;
    line >> path >> options.size >> options.middle >> out;
    const Image image = decoded(path);
    Image result;
    Resizer().resize(image, middle_of(options, image.width, image.height), whole(image),
                     options.size, options.size, Filter::Bicubic, result);
    write(out, result);
  } else if (call == "operation") {
    double amount = 0;
    line >> name >> amount >> path >> out;
    Image image = decoded(path);
    Operator().apply(operation_named(name), amount, mean_colour, image);
    write(out, image);
  } else if (call == "jpeg" || call == "png") {
    line >> path >> out;
    const auto file = call == "png" ? encode_png(decoded(path)) : encode_jpeg(decoded(path), 90);
    std::ofstream(out, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
  } else if (call == "train") {  // how long augmented pictures take: seconds for each
    int rounds = 0;
    line >> path >> rounds;
    const auto file = normball::trainer::files::Bytes::map(path);
    Augmenter augmenter({.operations = 2, .erase = 0.25});
    std::vector<float> pixels(3 * 224 * 224);
    for (int i = 0; i < rounds; ++i) {
      augmenter.training(file.span(), path, normball::Random(static_cast<std::uint64_t>(i)),
                         pixels.data());
    }
  } else if (call == "amount") {
    double level = 0;
    bool negative = false;
    int size = 0;
    line >> name >> level >> negative >> size;
    std::printf("%.17g\n", amount_at(operation_named(name), level, negative, size));
    std::fflush(stdout);
  } else {
    throw std::invalid_argument("no call " + call);
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      run(std::istringstream(line));
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << std::endl;
    }
  }
}
