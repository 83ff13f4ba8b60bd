#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: optimized, then under the sanitizers, then the linters.
#   ./test.sh                  everything
#   ./test.sh quick            the tests of the core, after an edit there: half a minute on two cores, and nothing is installed
#   ./test.sh develop          one preset only (develop, debug, asan-ubsan, tsan, or release: as a user builds it)
set -euo pipefail
cd "$(dirname "$0")"

# Left out are the quick forms of tests that run whole here.
run_preset() {
  echo "== $1: build and test"
  cmake --preset "$1" -D NORMBALL_TESTS=ON >/dev/null
  cmake --build --preset "$1"
  ctest --preset "$1" -j "$(nproc)" --label-exclude again
}

# Every version of a linter finds other things; the code follows those of Debian 12.
linters=14
has_linter() {
  case "$("$1" --version)" in
    *"version $linters."*) ;;
    *) echo "== $1: left out, since this is not version $linters" && return 1 ;;
  esac
}

if [ "${1:-}" = quick ]; then
  cmake --preset develop >/dev/null
  cmake --build --preset develop --target quick_tests
  exec ctest --preset develop -L quick -j "$(nproc)"
fi
if [ $# -gt 0 ]; then
  scripts/setup run build test
  for preset in "$@"; do run_preset "$preset"; done
  exit
fi
scripts/setup
if has_linter clang-format; then scripts/check-format; fi
run_preset develop
run_preset asan-ubsan
run_preset tsan
if has_linter clang-tidy; then cmake --build build/develop --target tidy; fi
echo "all tests passed"
