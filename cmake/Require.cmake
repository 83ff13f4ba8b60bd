# find_package, with an error that names the remedy: normball_require(BLAS "libopenblas-openmp-dev" [COMPONENTS ...]).
# A macro: what find_package sets belongs to the caller.
macro(normball_require package debian)
  find_package(${package} ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "[normball] ${package} was not found. On Debian: apt install ${debian}; "
                        "elsewhere: the package with its headers, or its place in CMAKE_PREFIX_PATH")
  endif()
endmacro()
