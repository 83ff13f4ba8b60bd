#!/usr/bin/env bash
# Installs what building and running the program needs where it is missing, builds, and runs the main job: a small
# network on Fashion-MNIST, trained by Unconstrained Scion and by Unconstrained ClippedScion at four fixed stepsizes
# and with three seeds. Ends with a table, a conclusion computed from these runs, and a picture (docs/train.md, "The
# demonstration").
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup run build
cmake --preset release -D NORMBALL_CLI=ON -D NORMBALL_TORCH=ON -D NORMBALL_TESTS=OFF -D NORMBALL_PYTHON=OFF \
  -D NORMBALL_EXAMPLES=OFF >/dev/null
cmake --build --preset release --target normball_cli
echo
build/release/cli/normball demo
