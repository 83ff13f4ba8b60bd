#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: a small network on Fashion-MNIST, trained by
# Unconstrained Scion and by Unconstrained ClippedScion at four fixed stepsizes and with three seeds. Ends with a
# table, a conclusion computed from these runs, and a picture (docs/train.md, "The demonstration").
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup
cmake --preset release >/dev/null
cmake --build --preset release --target normball_cli
echo
build/release/cli/normball demo
