#!/usr/bin/env bash
# Configures the project where something is missing: the core alone needs BLAS and LAPACK only, AUTO says what is left
# out, ON is an error that names what is missing, and warnings are errors for developers alone.
#   configure_test.sh SOURCE WORK_DIRECTORY CC CXX CHART_JS   (CMAKE names the tool)
set -euo pipefail
source=$1
work=$2
compilers=(-D CMAKE_C_COMPILER="$3" -D CMAKE_CXX_COMPILER="$4")
chart_js=$5
rm -rf "$work"
mkdir -p "$work"
cd "$source"  # where the presets are
failures=0

# expect CODE PATTERN NAME ARGUMENTS...: configures into $work/NAME.
expect() {
  local wanted=$1 pattern=$2 name=$3 code=0
  shift 3
  "$CMAKE" -B "$work/$name" "${compilers[@]}" "$@" >"$work/$name.txt" 2>&1 || code=$?
  # CMake wraps and indents what it says.
  if [ "$code" != "$wanted" ] || ! tr -s ' \n' ' ' <"$work/$name.txt" | grep -qE -- "$pattern"; then
    echo "$name: ended with $code instead of $wanted, or did not say '$pattern':"
    tail -n 20 "$work/$name.txt"
    failures=$((failures + 1))
  fi
}
has() { grep -q "^$2" "$work/$1/CMakeCache.txt"; }
problem() {
  echo "$*"
  failures=$((failures + 1))
}
without() { printf -- '-DCMAKE_DISABLE_FIND_PACKAGE_%s=ON\n' "$@"; }
mapfile -t all < <(without Torch GTest CLI11 nlohmann_json tomlplusplus ZLIB PkgConfig Python3 pybind11 benchmark)
mapfile -t no_torch < <(without Torch)
mapfile -t no_gtest < <(without GTest)
mapfile -t no_pybind < <(without pybind11)

# A package that is switched off and REQUIRED is an error of CMake: the core asks for none of these.
expect 0 "Build files have been written" core --preset core "${all[@]}"
expect 0 "without the program normball, since these were not found: .*toml\+\+.*without the tests, since .*GoogleTest" nothing \
  --preset release "${all[@]}"
expect 0 "without the LibTorch adapter and the trainer, since these were not found: LibTorch \(Debian: libtorch-dev" no-torch \
  --preset release "${no_torch[@]}"
expect 1 "NORMBALL_TORCH=ON builds the LibTorch adapter and the trainer, but these were not found: LibTorch" torch-wanted \
  --preset release -D NORMBALL_TORCH=ON "${no_torch[@]}"
expect 1 "NORMBALL_TESTS=ON builds the tests, but these were not found: GoogleTest" tests-wanted \
  --preset develop -D NORMBALL_TORCH=OFF "${no_gtest[@]}"
expect 1 "NORMBALL_PYTHON=ON builds the Python module, but these were not found: pybind11" python-wanted \
  --preset develop -D NORMBALL_TORCH=OFF "${no_pybind[@]}"
expect 1 "Chart.js \(Debian: libjs-chart.js, elsewhere -DNORMBALL_CHART_JS=" no-chart \
  --preset develop -D NORMBALL_TORCH=OFF -D CMAKE_IGNORE_PATH="$(dirname "$chart_js")"
expect 1 "NORMBALL_CHART_JS=/nowhere/chart.js: there is no such file" wrong-chart \
  --preset develop -D NORMBALL_TORCH=OFF -D NORMBALL_CHART_JS=/nowhere/chart.js
cp "$chart_js" "$work/chart.umd.js"
expect 0 "Build files have been written" own-chart --preset develop -D NORMBALL_TORCH=OFF \
  -D CMAKE_IGNORE_PATH="$(dirname "$chart_js")" -D NORMBALL_CHART_JS="$work/chart.umd.js"

for name in core nothing no-torch; do
  has "$name" CMAKE_COMPILE_WARNING_AS_ERROR:.*=ON && problem "$name: a user's warnings are errors"
done
has own-chart CMAKE_COMPILE_WARNING_AS_ERROR:.*=ON || problem "develop: warnings are no errors"
exit "$((failures > 0))"
