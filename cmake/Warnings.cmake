# One interface target, so that a consumer of the installed package does not inherit our warnings.
add_library(normball_warnings INTERFACE)
target_compile_options(normball_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
