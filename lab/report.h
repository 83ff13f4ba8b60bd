// What a run of the lab found: for people, for programs, and as a page.
#pragma once

#include <string>
#include <vector>

#include "lab/statement.h"

namespace normball::lab {

struct Summary {
  size_t rows = 0;
  size_t failed = 0;                     // inequalities that should hold and do not
  size_t refuted = 0;                    // printed forms shown to be wrong
  std::int64_t steps = 0;                // of the optimizer, in all
  std::int64_t descent_steps = 0;        // of GGNC, each checked for descent
  double smallest_margin = 0;            // bound / measured over rows that count
  std::string smallest_margin_row = {};  // which one
  double seconds = 0;
};

Summary summarize(const std::vector<Row>& rows, double seconds);
std::string to_text(const Summary& summary);
std::string to_json(const std::vector<Row>& rows, const Summary& summary, const Settings& settings);
// Self-contained: no scripts or styles from elsewhere.
std::string to_html(const std::vector<Statement>& all, const std::vector<Row>& rows,
                    const Summary& summary, const Settings& settings);

}  // namespace normball::lab
