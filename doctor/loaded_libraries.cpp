#include "doctor/loaded_libraries.h"

#include <algorithm>
#include <initializer_list>

namespace normball::doctor {
namespace {

template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "libgomp-a34b3233.so.1" and "libgomp.so.1.0.0" are libgomp; "libgomphosis.so" is not.
bool is_library(std::string_view file, std::string_view name) {
  if (!file.starts_with(name) || file.find(".so") == file.npos) return false;
  const std::string_view rest = file.substr(name.size());
  return rest.starts_with('.') || rest.starts_with('-') || rest.starts_with('_') ||
         rest.starts_with('p');  // libopenblasp-r0.3.21.so
}

std::vector<std::string> loaded(std::string_view maps,
                                std::initializer_list<std::string_view> names) {
  std::vector<std::string> paths;
  for_each_line(maps, [&](std::string_view line) {
    const auto slash = line.find('/');
    if (slash == line.npos) return;
    const std::string_view path = line.substr(slash), file = path.substr(path.rfind('/') + 1);
    const bool known =
        std::ranges::any_of(names, [&](std::string_view name) { return is_library(file, name); });
    if (known && std::ranges::find(paths, path) == paths.end()) paths.emplace_back(path);
  });
  return paths;
}

}  // namespace

std::vector<std::string> openmp_runtimes(std::string_view maps) {
  return loaded(maps, {"libgomp", "libomp", "libiomp5"});
}

std::vector<std::string> blas_libraries(std::string_view maps) {
  return loaded(maps, {"libopenblas", "libopenblas64", "libscipy_openblas", "libscipy_openblas64",
                       "libblis", "libmkl_rt", "libmkl_core", "libblas"});
}

std::string cpu_model(std::string_view cpuinfo) {
  std::string model;
  for_each_line(cpuinfo, [&](std::string_view line) {
    const auto colon = line.find(": ");
    if (model.empty() && line.starts_with("model name") && colon != line.npos) {
      model = line.substr(colon + 2);
    }
  });
  return model;
}

}  // namespace normball::doctor
