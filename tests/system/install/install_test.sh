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

echo "== find_package"
"$CMAKE" -G "$generator" -S "$source" -B "$work/cmake" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DWITH_TORCH="$torch" >/dev/null
"$CMAKE" --build "$work/cmake"
"$work/cmake/consumer"
if [ "$torch" = ON ]; then "$work/cmake/consumer_torch"; fi

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
