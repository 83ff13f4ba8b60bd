#include "normball/norms/auto.h"

#include "normball/norms/euclidean.h"
#include "normball/norms/spectral.h"

namespace normball {

Auto Auto::parse(TextCall&) { return {}; }
std::string Auto::text() const { return "auto"; }
ResolvedNorm Auto::resolve(const Shape& shape) const {
  return shape.rank <= 1 ? Rms{}.resolve(shape) : Spectral{}.resolve(shape);
}

}  // namespace normball
