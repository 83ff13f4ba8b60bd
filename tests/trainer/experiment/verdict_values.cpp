// Prints what trainer/experiment/claim decides of pairs read from standard input, for a test that
// computes the same with SciPy. A line: the margin, then a and b of each pair.
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/experiment/claim.h"

namespace {

using namespace normball::trainer::experiment;

void print(const Finding& finding) {
  std::cout << static_cast<int>(finding.answer) << ' ' << finding.effect->value << ' '
            << finding.effect->low << ' ' << finding.effect->high << ' ';
}

// Falls from 1000 by 1 in every step, and reaches 0 at `steps`.
Curve line(double steps) {
  Curve curve;
  for (int i = 1; i <= 200; ++i) curve.emplace_back(10 * i, 1 - 10 * i / steps);
  return curve;
}

}  // namespace

int main() {
  std::cout << std::setprecision(17);
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream words(text);
    double margin = 0, x = 0, y = 0;
    std::vector<double> a, b;
    std::vector<Curve> curves_a, curves_b;
    words >> margin;
    while (words >> x >> y) {
      a.push_back(x);
      b.push_back(y);
      curves_a.push_back(line(1000 * x));
      curves_b.push_back(line(1000 * y));
    }
    print(judge_better(a, b, true, margin));
    print(judge_better(a, b, false, margin));
    print(judge_alike(a, b, margin));
    print(judge_change(a, b, true, margin));
    print(judge_change(a, b, false, margin));
    print(judge_faster(curves_a, curves_b, margin));
    std::cout << '\n';
  }
}
