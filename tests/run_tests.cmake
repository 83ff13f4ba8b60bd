# The tests of trainer/run.
find_package(nlohmann_json REQUIRED)
foreach(name run_checksum_test run_safetensors_test run_checkpoint_test run_config_test run_crash_test
             run_metrics_test run_progress_test run_python_test run_report_test run_resume_test
             run_tensorboard_test)
  normball_test(${name})
  target_link_libraries(${name} PRIVATE normball_run nlohmann_json::nlohmann_json)
endforeach()
target_compile_definitions(run_python_test PRIVATE
    NORMBALL_SOURCE="${PROJECT_SOURCE_DIR}" NORMBALL_PYTHON="${Python3_EXECUTABLE}")

if(NORMBALL_CLI)
  add_test(NAME run_cli_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_cli_test.sh
      $<TARGET_FILE:normball_cli> ${CMAKE_CURRENT_BINARY_DIR}/run_cli ${PROJECT_SOURCE_DIR})
  add_test(NAME run_report_page_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_report_page_test.sh
      $<TARGET_FILE:normball_cli> ${CMAKE_CURRENT_BINARY_DIR}/run_report_page ${Python3_EXECUTABLE})
  set_tests_properties(run_report_page_test PROPERTIES SKIP_RETURN_CODE 77)
endif()
if(NOT NORMBALL_SANITIZE)  # it counts what operator new hands out
  normball_test(run_memory_test)
  target_link_libraries(run_memory_test PRIVATE normball_run)
endif()
