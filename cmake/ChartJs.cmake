# Chart.js 3 or 4 in one file, which the report page takes in: where distributions and npm put it.
set(chart_js_prefixes ${CMAKE_PREFIX_PATH} ${CMAKE_INSTALL_PREFIX} ${CMAKE_SYSTEM_PREFIX_PATH})
list(REMOVE_DUPLICATES chart_js_prefixes)
find_file(NORMBALL_CHART_JS NAMES chart.min.js chart.umd.min.js chart.umd.js
    PATHS ${PROJECT_SOURCE_DIR}/node_modules/chart.js/dist ${chart_js_prefixes}
    PATH_SUFFIXES share/javascript/chart.js share/javascript/chartjs share/nodejs/chart.js/dist
                  lib/node_modules/chart.js/dist
    NO_DEFAULT_PATH
    DOC "Chart.js, which the report page takes in")
if(NORMBALL_CHART_JS AND NOT EXISTS "${NORMBALL_CHART_JS}")
  message(FATAL_ERROR "[normball] NORMBALL_CHART_JS=${NORMBALL_CHART_JS}: there is no such file; "
                      "name chart.min.js of Chart.js 3 or chart.umd.js of Chart.js 4")
endif()
