# Developers compile the same sources in many directories and clones. Where ccache is installed it remembers them: all
# paths are taken relative to the sources, and precompiled headers need the sloppiness that ccache's manual names.
option(NORMBALL_CCACHE "Compile through ccache where it is installed" OFF)
if(NORMBALL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(NORMBALL_CCACHE_PROGRAM ccache)
  mark_as_advanced(NORMBALL_CCACHE_PROGRAM)
  if(NORMBALL_CCACHE_PROGRAM)
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${NORMBALL_CCACHE_PROGRAM})
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  endif()
endif()
