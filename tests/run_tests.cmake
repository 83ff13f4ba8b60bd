# The tests of trainer/run.
find_package(nlohmann_json REQUIRED)
foreach(name run_checksum_test run_safetensors_test run_checkpoint_test)
  normball_test(${name})
  target_link_libraries(${name} PRIVATE normball_run nlohmann_json::nlohmann_json)
endforeach()
