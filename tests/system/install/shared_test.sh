#!/bin/sh
# Builds library and program with BUILD_SHARED_LIBS, installs them, moves the prefix and runs the
# program: whatever it needs must have been installed.
#   shared_test.sh SOURCE WORK GENERATOR CC CXX VERSION   (CMAKE names the tool)
set -eu
source=$1 work=$2 generator=$3 cc=$4 cxx=$5 version=$6

rm -rf "$work"
"$CMAKE" -G "$generator" -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=ON \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DNORMBALL_TORCH=OFF -DNORMBALL_TESTS=OFF \
  -DNORMBALL_PYTHON=OFF -DNORMBALL_EXAMPLES=OFF >/dev/null
"$CMAKE" --build "$work/build" --target normball_cli --parallel 2
"$CMAKE" --install "$work/build" --prefix "$work/before" >/dev/null
mv "$work/before" "$work/prefix"
rm -r "$work/build"  # nothing there can help
said=$("$work/prefix/bin/normball" --version)
echo "normball --version: $said"
test "$said" = "$version"
# Before 1.0 a minor version may break programs: the loader's name says it, as CMake's package does.
library=$(find "$work/prefix" -name 'libnormball.so.[0-9]*' | head -n 1)
test -n "$library"
LC_ALL=C objdump -p "$library" | grep -F "SONAME" | grep -qF "libnormball.so.${version%.*}" || {
  echo "the SONAME is not of version ${version%.*}: $(objdump -p "$library" | grep SONAME)" >&2
  exit 1
}
"$work/prefix/bin/normball" bench --rounds 1 --shape 8x8 --solver exact --no-pass --no-step >/dev/null
