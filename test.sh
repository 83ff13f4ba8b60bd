#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: release, then under the sanitizers.
#   ./test.sh            everything
#   ./test.sh release    one preset only (release, debug, asan-ubsan or tsan)
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup

run_preset() {
  echo "== $1: build and test"
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1"
  ctest --preset "$1" -j "$(nproc)"
}

if [ $# -gt 0 ]; then
  for preset in "$@"; do run_preset "$preset"; done
  exit
fi
scripts/check-format
run_preset release
run_preset asan-ubsan
run_preset tsan
cmake --build build/release --target tidy
echo "all tests passed"
