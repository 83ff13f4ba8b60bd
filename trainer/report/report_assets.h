// Files that are part of the program (see embed.cmake).
#pragma once

#include <string_view>

namespace normball::trainer::report::assets {

std::string_view page_style();
std::string_view layers_script();
std::string_view page_script();
std::string_view chart_library();

}  // namespace normball::trainer::report::assets
