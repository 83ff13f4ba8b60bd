// HTML pages of one look: colours, type, cards. What only one page has comes as its own style.
#pragma once

#include <string>
#include <string_view>

namespace normball::page {

// For text and attributes.
std::string escape(std::string_view text);

// Everything up to the contents of <main>, which the caller closes with end().
std::string begin(std::string_view title, std::string_view own_style);
// `after_main` stands behind the contents: scripts.
std::string end(std::string_view after_main = "");

}  // namespace normball::page
