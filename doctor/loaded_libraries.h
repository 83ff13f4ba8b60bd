// The libraries in a process, from the text of /proc/<process>/maps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normball::doctor {

// libgomp, libomp and libiomp5, also under the names that Python wheels give them. Paths, each
// once.
std::vector<std::string> openmp_runtimes(std::string_view maps);

// OpenBLAS, BLIS, MKL and the reference BLAS.
std::vector<std::string> blas_libraries(std::string_view maps);

// The model's name in the text of /proc/cpuinfo; empty where there is none.
std::string cpu_model(std::string_view cpuinfo);

}  // namespace normball::doctor
