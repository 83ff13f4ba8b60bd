# One interface target, so that a consumer of the installed package does not inherit our warnings.
add_library(normball_warnings INTERFACE)
target_compile_options(normball_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
  # GCC 14 and 16 take the clean-up after a failed copy of a variant within a variant (Norm in Layer) for a use of what was
  # never set: the index, which std::variant sets first.
  target_compile_options(normball_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
