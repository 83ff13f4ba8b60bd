# The numerical tests again at each level of instructions that the processor can pretend to be:
# optimizer_test@sse, optimizer_test@avx2, ... What it does not have is shown as skipped.
add_executable(at_level at_level.cpp)
target_link_libraries(at_level PRIVATE normball::core normball_warnings)

# normball_at_levels(name COMMAND...): the test `name`, whose environment is already set, at each level.
function(normball_at_levels name)
  if(NORMBALL_SANITIZE)  # memory and threads are the same at every level
    return()
  endif()
  get_test_property(${name} ENVIRONMENT environment)
  foreach(level sse avx2 avx512)
    add_test(NAME ${name}@${level} COMMAND at_level ${level} ${ARGN})
    set_tests_properties(${name}@${level} PROPERTIES
        ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77 LABELS levels)
  endforeach()
endfunction()

# One executable of GoogleTest, or several.
function(normball_test_at_levels)
  foreach(name IN LISTS ARGN)
    normball_at_levels(${name} $<TARGET_FILE:${name}> --gtest_brief=1)
  endforeach()
endfunction()
