#include "plot/svg_frame.h"

#include "page/page.h"

namespace normball::plot {

void open_svg(std::ostream& out, double width, double height, double left, const std::string& title,
              const std::string& subtitle) {
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
      << "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\" "
         "fill=\"#333\">\n"
      << "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"white\"/>\n<text x=\"" << left
      << "\" y=\"30\" font-size=\"18\" font-weight=\"bold\">" << page::escape(title)
      << "</text>\n<text x=\"" << left << "\" y=\"51\" fill=\"#666\">" << page::escape(subtitle)
      << "</text>\n";
}

void axis_labels(std::ostream& out, double left, double top, double width, double height,
                 const std::string& x_label, const std::string& y_label) {
  out << "<text x=\"" << left + width / 2 << "\" y=\"" << top + height + 44
      << "\" text-anchor=\"middle\">" << page::escape(x_label)
      << "</text>\n<text transform=\"translate(22 " << top + height / 2
      << ") rotate(-90)\" text-anchor=\"middle\">" << page::escape(y_label) << "</text>\n";
}

}  // namespace normball::plot
