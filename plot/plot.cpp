#include "plot/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace plot {
namespace {

bool drawable(double y) { return y > 0 && std::isfinite(y); }

// The decades and steps that all curves together cover.
struct Range {
  int low = 0, high = 1;
  double steps = 1;

  explicit Range(const Figure& figure) {
    double smallest = INFINITY, largest = 0;
    for (const auto& curve : figure.curves) {
      steps = std::max(steps, static_cast<double>(curve.values.size()) - 1);
      for (const double y : curve.values) {
        if (!drawable(y)) continue;
        smallest = std::min(smallest, y);
        largest = std::max(largest, y);
      }
    }
    if (largest == 0) return;
    low = static_cast<int>(std::floor(std::log10(smallest)));
    high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(largest))));
  }

  double across(double step) const { return step / steps; }
  double down(double y) const { return (high - std::log10(y)) / (high - low); }
};

// 1, 2 or 5 times a power of ten, so that about `wanted` of them fit into the length.
int tick_distance(double length, int wanted) {
  const double raw = std::max(1.0, length / wanted);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return static_cast<int>(factor * power);
  }
  return static_cast<int>(10 * power);
}

std::string superscript(int value) {
  static constexpr std::array<const char*, 10> digits = {"⁰", "¹", "²", "³", "⁴",
                                                         "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = value < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(value))) text += digits[static_cast<size_t>(c - '0')];
  return text;
}

std::string pad_left(const std::string& text, size_t shown, size_t width) {
  return std::string(width > shown ? width - shown : 0, ' ') + text;
}

// Cells of 2x4 Braille dots, each in the colour of the curve drawn there last.
class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns * rows)) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void dot(int x, int y, int color) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    static constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell& cell = cells_[static_cast<size_t>(y / 4 * columns_ + x / 2)];
    cell.dots |= bits[y % 4][x % 2];
    cell.color = color;
  }

  // `drawn` counts the dots along the curve, for its dashes.
  void line(int x0, int y0, int x1, int y1, const Curve& curve, int& drawn) {
    const int length = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 1; i <= length; ++i, ++drawn) {
      if (curve.dash != 0 && drawn / curve.dash % 2 != 0) continue;
      const double t = static_cast<double>(i) / length;
      dot(static_cast<int>(std::lround(x0 + t * (x1 - x0))),
          static_cast<int>(std::lround(y0 + t * (y1 - y0))), curve.terminal_color);
    }
  }

  std::string row(int r, bool color) const {
    std::string text;
    int current = 0;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[static_cast<size_t>(r * columns_ + c)];
      if (color && cell.dots != 0 && cell.color != current) {
        current = cell.color;
        text += "\x1b[" + std::to_string(current) + "m";
      }
      if (cell.dots == 0) {
        text += ' ';
      } else {  // U+2800 + dots in UTF-8
        text += {'\xe2', static_cast<char>(0xa0 + (cell.dots >> 6)),
                 static_cast<char>(0x80 + (cell.dots & 0x3f))};
      }
    }
    return current == 0 ? text : text + "\x1b[0m";
  }

 private:
  struct Cell {
    unsigned dots = 0;
    int color = 0;
  };
  int columns_, rows_;
  std::vector<Cell> cells_;
};

void draw(Canvas& canvas, const Range& range, const Curve& curve) {
  int drawn = 0, last_x = 0, last_y = 0;
  bool pen_down = false;
  for (size_t k = 0; k < curve.values.size(); ++k) {
    if (!drawable(curve.values[k])) continue;
    const double across = range.across(static_cast<double>(k)) * (canvas.width() - 1);
    const double down = range.down(curve.values[k]) * (canvas.height() - 1);
    const int x = static_cast<int>(std::lround(across)), y = static_cast<int>(std::lround(down));
    if (pen_down && x == last_x && y == last_y) continue;
    if (pen_down) {
      canvas.line(last_x, last_y, x, y, curve, drawn);
    } else {
      canvas.dot(x, y, curve.terminal_color);  // a curve may be one point
    }
    last_x = x;
    last_y = y;
    pen_down = true;
  }
}

// In as many lines as the columns ask for.
std::string legend(const Figure& figure, size_t columns, bool color) {
  constexpr size_t dashes = 6;
  std::string text;
  size_t used = 0;
  for (const auto& curve : figure.curves) {
    Canvas sample(dashes, 1);
    int drawn = 0;
    sample.line(-1, 2, sample.width() - 1, 2, curve, drawn);
    const size_t width = dashes + 1 + curve.name.size();
    const bool fits = used + 4 + width <= columns;
    if (used > 0) text += fits ? "    " : "\n  ";
    text += sample.row(0, color) + " " + curve.name;
    used = used > 0 && fits ? used + 4 + width : width;
  }
  return text;
}

std::string x_axis(const Range& range, int columns, const std::string& label) {
  const int distance = tick_distance(range.steps, 6);
  std::string line, numbers(static_cast<size_t>(columns) + 12, ' ');
  int next = 0;
  for (int c = 0; c < columns; ++c) {
    const bool tick =
        next <= range.steps && c == std::lround(range.across(next) * (2 * columns - 1)) / 2;
    line += tick ? "┬" : "─";
    if (!tick) continue;
    const std::string number = std::to_string(next);
    const auto begin =
        static_cast<size_t>(std::max(0, c + 8 - static_cast<int>(number.size() / 2)));
    numbers.replace(begin, number.size(), number);
    next += distance;
  }
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  return "       └" + line + "\n" + numbers + "  " + label + "\n";
}

}  // namespace

std::string to_terminal(const Figure& figure, int columns, int rows, bool color) {
  const Range range(figure);
  Canvas canvas(columns, rows);
  for (const auto& curve : figure.curves) draw(canvas, range, curve);

  const int decades_per_label = tick_distance(range.high - range.low, rows / 2);
  std::string text =
      "  " + figure.y_label + "\n  " + legend(figure, static_cast<size_t>(columns), color) + "\n";
  int next = range.high;
  for (int r = 0; r < rows; ++r) {
    const double position =
        (range.high - next) * (canvas.height() - 1.0) / (range.high - range.low);
    const bool tick = next >= range.low && r == std::lround(position) / 4;
    const std::string exponent = std::to_string(next);
    text += tick ? pad_left("10" + superscript(next), 2 + exponent.size(), 6) + " ┤" : "       │";
    text += canvas.row(r, color) + "\n";
    if (tick) next -= decades_per_label;
  }
  return text + x_axis(range, columns, figure.x_label);
}

std::string to_svg(const Figure& figure) {
  constexpr double left = 78, top = 70, width = 600, height = 340, right = 182, bottom = 58;
  const Range range(figure);
  const auto x_of = [&](double step) { return left + range.across(step) * width; };
  const auto y_of = [&](double y) { return top + range.down(y) * height; };

  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << left + width + right << ' '
      << top + height + bottom << "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" "
      << "font-size=\"13\" fill=\"#333\">\n"
      << "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"white\"/>\n"
      << "<text x=\"" << left << "\" y=\"30\" font-size=\"18\" font-weight=\"bold\">"
      << figure.title << "</text>\n<text x=\"" << left << "\" y=\"51\" fill=\"#666\">"
      << figure.subtitle << "</text>\n";

  const int decades_per_label = tick_distance(range.high - range.low, 8);
  for (int decade = range.high; decade >= range.low; decade -= decades_per_label) {
    const double y = y_of(std::pow(10, decade));
    out << "<path d=\"M" << left << ' ' << y << 'h' << width << "\" stroke=\"#e4e4e4\"/>"
        << "<text x=\"" << left - 10 << "\" y=\"" << y + 4.5 << "\" text-anchor=\"end\">10"
        << "<tspan dy=\"-5\" font-size=\"10\">" << (decade < 0 ? "−" : "") << std::abs(decade)
        << "</tspan></text>\n";
  }
  const int distance = tick_distance(range.steps, 6);
  for (int step = 0; step <= range.steps; step += distance) {
    out << "<path d=\"M" << x_of(step) << ' ' << top + height << "v5\" stroke=\"#888\"/><text x=\""
        << x_of(step) << "\" y=\"" << top + height + 21 << "\" text-anchor=\"middle\">" << step
        << "</text>\n";
  }
  out << "<path d=\"M" << left << ' ' << top << 'v' << height << 'h' << width
      << "\" fill=\"none\" stroke=\"#888\"/>\n<text x=\"" << left + width / 2 << "\" y=\""
      << top + height + 44 << "\" text-anchor=\"middle\">" << figure.x_label
      << "</text>\n<text transform=\"translate(22 " << top + height / 2
      << ") rotate(-90)\" text-anchor=\"middle\">" << figure.y_label << "</text>\n";

  struct Label {
    double x, y;
    const Curve* curve;
  };
  std::vector<Label> labels;
  for (const auto& curve : figure.curves) {
    out << "<path fill=\"none\" stroke-width=\"2.2\" stroke-linejoin=\"round\" stroke=\""
        << curve.svg_color << '"';
    if (curve.dash != 0) out << " stroke-dasharray=\"" << 2 * curve.dash << '"';
    out << " d=\"";
    Label label{left, top, &curve};
    bool pen_down = false;
    const size_t every = 1 + curve.values.size() / 1500;
    for (size_t k = 0; k < curve.values.size(); k += every) {
      if (!drawable(curve.values[k])) continue;
      label = {x_of(static_cast<double>(k)), y_of(curve.values[k]), &curve};
      out << (pen_down ? 'L' : 'M') << label.x << ' ' << label.y;
      pen_down = true;
    }
    out << "\"/>\n";
    labels.push_back(label);
  }

  // Labels of curves that end close to each other move apart.
  std::ranges::sort(labels, {}, &Label::y);
  double free_from = 0;
  for (const auto& label : labels) {
    const double y = std::max(label.y + 4.5, free_from);
    out << "<text x=\"" << label.x + 9 << "\" y=\"" << y << "\" font-weight=\"bold\" fill=\""
        << label.curve->svg_color << "\">" << label.curve->name << "</text>\n";
    free_from = y + 18;
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace plot
