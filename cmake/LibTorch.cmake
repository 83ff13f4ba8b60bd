# LibTorch, and one precompiled header of it for the whole project, one for the tests: <torch/torch.h> takes half a
# minute to compile. Components.cmake has found it.

# The headers as system headers: their warnings are not ours.
add_library(normball_libtorch INTERFACE)
target_include_directories(normball_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(normball_libtorch INTERFACE torch)

function(normball_torch_pch name)
  add_library(${name} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/torch_pch.cpp)
  target_link_libraries(${name} PRIVATE normball_libtorch normball_warnings)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE <torch/torch.h>)
endfunction()
normball_torch_pch(normball_torch_pch)

# Makes a target use LibTorch. Its sources get <torch/torch.h> from the precompiled header (or from the one named),
# which is only valid with the same code generation: the same optimization, and position-independent code for
# executables as well.
function(normball_use_torch target)
  set(header normball_torch_pch)
  if(ARGC GREATER 1)
    set(header ${ARGV1})
  endif()
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:normball_libtorch>
                                          $<BUILD_INTERFACE:normball_warnings>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
  # Even so, what a file instantiates of LibTorch takes 20 seconds: four files at once share it.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
endfunction()
