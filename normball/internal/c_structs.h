// The structures of the C interface, to and from the library's own. Internal.
//
// A program says how large the structures were when it was compiled: what it does not know is zero,
// what the library does not know must be.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "normball/base/error.h"
#include "normball/method.h"
#include "normball/normball_c.h"
#include "normball/optimizer.h"

namespace normball::detail {

void require_pointer(const void* pointer, std::string_view where, std::string_view what);

normball_options read_options(const normball_options* options);
std::vector<Layer> to_layers(const normball_layer* layers, size_t count, size_t size);
// Throws for a norm or radius of a layer's that the method would not use.
void require_used(const Method& method, const std::vector<Layer>& layers);
Method to_method(std::string_view name, const normball_options& options);
Execution to_execution(const normball_options& options);

normball_report to_c(const StepReport& report);

template <class T>
void write_struct(const T& from, void* to, size_t size) {
  if (to == nullptr) return;
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(static_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
}

}  // namespace normball::detail
