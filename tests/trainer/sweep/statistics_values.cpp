// Prints what trainer/sweep/statistics computes of pairs read from standard input, for a test that
// computes the same with SciPy. A line: the level, then a and b of each pair.
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/sweep/statistics.h"

namespace {

using namespace normball::trainer::sweep;

void print(const char* name, const Estimate& estimate) {
  std::cout << name << ' ' << estimate.value << ' ' << estimate.low << ' ' << estimate.high << ' ';
}

}  // namespace

int main() {
  std::cout << std::setprecision(17);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    double level = 0, x = 0, y = 0;
    std::vector<double> a, b;
    words >> level;
    while (words >> x >> y) {
      a.push_back(x);
      b.push_back(y);
    }
    print("mean", mean_of(a, level));
    print("difference", paired_difference(a, b, level));
    print("ratio", paired_ratio(a, b, level));
    std::cout << "p " << p_value(a, b) << '\n';
  }
}
