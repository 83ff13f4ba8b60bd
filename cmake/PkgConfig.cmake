# Writes normball.pc: relocatable, and with what the library needs where a program links it.

# A library as the linker finds it: -lname if it is in one of its own directories.
function(normball_link_flags out)
  set(flags)
  foreach(library IN LISTS ARGN)
    cmake_path(GET library PARENT_PATH directory)
    if(library MATCHES "/lib([^/]+)\\.(so|a)$" AND directory IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      set(library -l${CMAKE_MATCH_1})
    elseif(NOT library MATCHES "^[-/]")
      set(library -l${library})
    endif()
    list(APPEND flags ${library})
  endforeach()
  list(REMOVE_DUPLICATES flags)
  list(JOIN flags " " flags)
  set(${out} " ${flags}" PARENT_SCOPE)
endfunction()

normball_link_flags(needed ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES} ${OpenMP_CXX_FLAGS} ${cxx_runtime} -lm)

# A static library leaves them to the program, so they are not private there.
if(BUILD_SHARED_LIBS)
  set(pc_libs "")
  set(pc_libs_private "${needed}")
else()
  set(pc_libs "${needed}")
  set(pc_libs_private "")
endif()

# An absolute directory stays as it is.
set(pc_libdir "\${prefix}")
set(pc_includedir "\${prefix}")
cmake_path(APPEND pc_libdir "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/normball.pc.in normball.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/normball.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
