# LibTorch, and one precompiled header of it for the whole project: <torch/torch.h> takes half a
# minute to compile. Components.cmake has found it.

# The headers as system headers: their warnings are not ours.
add_library(normball_libtorch INTERFACE)
target_include_directories(normball_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(normball_libtorch INTERFACE torch)

add_library(normball_torch_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp)
target_link_libraries(normball_torch_pch PRIVATE normball_libtorch normball_warnings)
target_precompile_headers(normball_torch_pch PRIVATE <torch/torch.h>)

# Makes a target use LibTorch. Its sources get <torch/torch.h> from the precompiled header, which is
# only valid with the same code generation: position-independent code for executables as well.
function(normball_use_torch target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:normball_libtorch>
                                          $<BUILD_INTERFACE:normball_warnings>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM normball_torch_pch)
  # Even so, what a file instantiates of LibTorch takes 20 seconds: four files at once share it.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
endfunction()
