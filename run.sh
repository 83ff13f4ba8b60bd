#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: GGNC against steepest descent and
# normalized descent on a badly scaled problem, with a table and a plot.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup
cmake --preset release >/dev/null
cmake --build --preset release --target best_of_both_worlds
exec build/release/examples/best_of_both_worlds "$@"
