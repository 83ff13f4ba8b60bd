#!/bin/sh
# extending_test.sh PYTHON SOURCE WORK: what docs/extending.md shows, on a copy of the sources.
set -eu
python=$1 source=$2 work=$3
rm -rf "$work"
mkdir -p "$work/source"
cd "$source"
cp -r CMakeLists.txt CMakePresets.json README.md LICENSE cmake doctor normball python "$work/source/"
"$python" "$source/tests/system/extending/apply_page.py" "$source/docs/extending.md" "$work/source"
cp "$source/tests/system/extending/extended.cmake" "$work/source/tests/CMakeLists.txt"
cmake -S "$work/source/tests" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DPython3_EXECUTABLE="$python" > "$work/configure.log"
cmake --build "$work/build" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/build/extension_test" --gtest_brief=1
if "$python" -c 'import torch' 2> /dev/null; then
  PYTHONPATH=$work/build/core/python "$python" "$work/source/tests/extension_test.py"
fi
echo "the page's norm and rule work"
