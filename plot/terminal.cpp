#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "plot/axes.h"

namespace normball::plot {
namespace {

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

void draw(Canvas& canvas, const Axes& axes, const Curve& curve) {
  int drawn = 0, last_x = 0, last_y = 0;
  bool pen_down = false;
  for (size_t k = 0; k < curve.values.size(); ++k) {
    if (!axes.drawable(curve, k)) continue;
    const double across = axes.across(Axes::x_of(curve, k)) * (canvas.width() - 1);
    const double down = axes.down(curve.values[k]) * (canvas.height() - 1);
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

std::string y_label(const Axes& axes, double tick) {
  if (axes.linear_y()) return pad_left(tick_text(tick), tick_text(tick).size(), 6);
  const auto decade = static_cast<int>(std::lround(std::log10(tick)));
  return pad_left("10" + superscript(decade), 2 + std::to_string(decade).size(), 6);
}

std::string x_axis(const Axes& axes, int columns, const std::string& label) {
  const std::vector<double> ticks = axes.x_ticks(6);
  std::string line, numbers(static_cast<size_t>(columns) + 12, ' ');
  const auto column_of = [&](double x) {
    return std::lround(axes.across(x) * (2 * columns - 1)) / 2;
  };
  auto next = ticks.begin();
  for (int c = 0; c < columns; ++c) {
    while (next != ticks.end() && column_of(*next) < c) ++next;  // two in one column
    const bool tick = next != ticks.end() && column_of(*next) == c;
    line += tick ? "┬" : "─";
    if (!tick) continue;
    const std::string number = tick_text(*next++);
    const auto begin =
        static_cast<size_t>(std::max(0, c + 8 - static_cast<int>(number.size() / 2)));
    numbers.replace(begin, number.size(), number);
  }
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  return "       └" + line + "\n" + numbers + "  " + label + "\n";
}

}  // namespace

std::string to_terminal(const Figure& figure, int columns, int rows, bool color) {
  const Axes axes(figure);
  Canvas canvas(columns, rows);
  for (const auto& curve : figure.curves) draw(canvas, axes, curve);

  const auto ticks = axes.y_ticks(rows / 2);
  std::string text =
      "  " + figure.y_label + "\n  " + legend(figure, static_cast<size_t>(columns), color) + "\n";
  auto next = ticks.begin();
  for (int r = 0; r < rows; ++r) {
    const bool tick =
        next != ticks.end() && r == std::lround(axes.down(*next) * (canvas.height() - 1)) / 4;
    text += tick ? y_label(axes, *next++) + " ┤" : "       │";
    text += canvas.row(r, color) + "\n";
  }
  return text + x_axis(axes, columns, figure.x_label);
}

}  // namespace normball::plot
