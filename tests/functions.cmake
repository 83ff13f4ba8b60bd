# How a test is declared.
# What is tested is optimized as installed; the tests themselves only have to compile fast.
set(test_options $<$<CONFIG:Release>:-O1>)

# One executable for each header it tests. `path` is the source without .cpp; its last part is the test's name.
function(normball_add_test path)
  get_filename_component(name ${path} NAME)
  add_executable(${name} ${path}.cpp)
  target_link_libraries(${name} PRIVATE normball::core normball_warnings GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE ${test_options})
  if(NORMBALL_SANITIZE)
    target_compile_definitions(${name} PRIVATE NORMBALL_SANITIZED)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  # Threads that wait sleep: tests run side by side, and would otherwise spin against each other.
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=2;OMP_WAIT_POLICY=passive")
endfunction()

# The same with testing.h precompiled, once for all: by kernels_test.
function(normball_test path)
  normball_add_test(${path})
  get_filename_component(name ${path} NAME)
  target_precompile_headers(${name} REUSE_FROM kernels_test)
endfunction()

# One on LibTorch, whose headers are precompiled instead.
if(NORMBALL_TORCH)
  normball_torch_pch(torch_test_pch ${test_options})
endif()
function(normball_torch_test name)
  normball_add_test(${name})
  normball_use_torch(${name} torch_test_pch)
  target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()

# A program that must end with the code and print what matches.
function(normball_output_test name code pattern)
  add_test(NAME ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
           COMMAND ${CMAKE_COMMAND} -D code=${code} -D pattern=${pattern}
                   -P ${PROJECT_SOURCE_DIR}/tests/expect_output.cmake -- ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=2;OMP_WAIT_POLICY=passive")
endfunction()
# Of that itself: each of these two must fail.
normball_output_test(expect_output_code 0 "out" sh -c "echo out && exit 3")
normball_output_test(expect_output_pattern 3 "in" sh -c "echo out && exit 3")
set_tests_properties(expect_output_code expect_output_pattern PROPERTIES WILL_FAIL TRUE)
