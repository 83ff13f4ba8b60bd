#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: GGNC against steepest descent and
# normalized descent on a badly scaled problem, with a table, a plot and a figure. Arguments go to the
# example; ./run.sh --help lists them.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup
cmake --preset release >/dev/null
cmake --build --preset release --target best_of_both_worlds
mkdir -p runs
build/release/examples/best_of_both_worlds --svg runs/best_of_both_worlds.svg "$@"
echo
echo "The same curves as a figure: runs/best_of_both_worlds.svg"
