# The Python that the module is built for and that the tests run: -DPython3_EXECUTABLE, or the first on the PATH that
# has PyTorch, or the first of all.
function(normball_python_has_torch result candidate)
  execute_process(COMMAND ${candidate} -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
                  RESULT_VARIABLE lacking OUTPUT_QUIET ERROR_QUIET)
  if(NOT lacking EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
if(NOT Python3_EXECUTABLE)
  find_program(Python3_EXECUTABLE python3 VALIDATOR normball_python_has_torch
               DOC "The Python that the module is built for and that the tests run")
endif()
if(NOT Python3_EXECUTABLE)
  unset(Python3_EXECUTABLE CACHE)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
if(Python3_Development.Module_FOUND)
  find_package(pybind11 QUIET)  # takes the Python that was found
endif()
