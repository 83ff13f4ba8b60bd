#!/bin/sh
# Installs the build into a prefix, moves that, and uses it as others would: from CMake and from
# pkg-config. The programs see the prefix only, so a header that was not installed is an error.
#   install_test.sh BUILD WORK GENERATOR CC CXX TORCH   (TORCH: ON with the adapter; CMAKE and PKG_CONFIG name the tools)
set -eu
build=$1 work=$2 generator=$3 cc=$4 cxx=$5 torch=$6
source=$(cd "$(dirname "$0")" && pwd)/consumer
prefix=$work/prefix

rm -rf "$work"
mkdir -p "$work"
"$CMAKE" --install "$build" --prefix "$work/before" >/dev/null
mv "$work/before" "$prefix"

echo "== public headers: each by itself, and none of the internals"
if find "$prefix/include/normball" -path '*internal*' | grep . || grep -rn 'normball/internal/' "$prefix/include/normball"; then
  echo "an internal header is installed, or included by one that is" >&2
  exit 1
fi
(cd "$prefix/include" && find normball -name '*.h') | while read -r header; do
  printf '#include "%s"\n' "$header" | "$cxx" -std=c++20 -I "$prefix/include" -fsyntax-only -x c++ -
done

echo "== find_package"
"$CMAKE" -G "$generator" -S "$source" -B "$work/cmake" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DWITH_TORCH="$torch" >/dev/null
"$CMAKE" --build "$work/cmake"
"$work/cmake/consumer"
if [ "$torch" = ON ]; then "$work/cmake/consumer_torch"; fi

echo "== find_package of what there is not"
mkdir "$work/unknown"
cat >"$work/unknown/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(unknown CXX)
find_package(normball COMPONENTS core OPTIONAL_COMPONENTS cuda)
if(NOT normball_FOUND)
  message(FATAL_ERROR "an optional component that is unknown is no error")
endif()
find_package(normball REQUIRED COMPONENTS cuda)
END
if "$CMAKE" -G "$generator" -S "$work/unknown" -B "$work/unknown/build" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" >"$work/unknown/log" 2>&1; then
  echo "an unknown component was found" >&2
  exit 1
fi
tr -s ' \n' ' ' <"$work/unknown/log" | grep -F "normball has no component 'cuda'; it has: core, torch" || {
  cat "$work/unknown/log" >&2
  exit 1
}

echo "== find_package in C alone"
"$CMAKE" -G "$generator" -S "${source}_c" -B "$work/cmake_c" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
"$CMAKE" --build "$work/cmake_c"
"$work/cmake_c/consumer_c"

libdir=$(dirname "$(find "$prefix" -name 'libnormball.*' | head -n 1)")
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
for form in "" --static; do
  echo "== pkg-config $form"
  flags=$("$PKG_CONFIG" --cflags --libs $form normball)
  echo "$flags"
  # shellcheck disable=SC2086 # the flags are words
  "$cc" -std=c11 -pedantic -Wall -Wextra -Werror "$source/consumer.c" $flags -o "$work/consumer_c"
  "$work/consumer_c"
done
