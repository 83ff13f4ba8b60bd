#!/bin/sh
# The package by cmake --install into a prefix, and a step with it.
#   cmake_install_test.sh CMAKE BUILD WORK PYTHON_DIR PYTHON
set -eu
unset PYTHONPATH  # or the package there would be found first
cmake=$1 build=$2 work=$3 python_dir=$4 python=$5
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
"$cmake" --install "$build" --prefix "$work" --component python >/dev/null
PYTHONPATH="$work/$python_dir" "$python" "$here/use.py" "$work"
