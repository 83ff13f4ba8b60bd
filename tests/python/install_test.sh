#!/bin/sh
# Installs the package by pip into a fresh virtual environment and by cmake --install into a prefix, both without
# network, and trains with each.
#   install_test.sh SOURCE BUILD WORK PYTHON_DIR PYTHON      (CMAKE names the tool)
set -eu
source=$1 build=$2 work=$3 python_dir=$4 python=$5
rm -rf "$work"
mkdir -p "$work"
cd "$work"

cat >use.py <<'END'
import pathlib
import sys

import normball
import torch
from normball.torch import ClippedScion

home = pathlib.Path(normball.__file__).resolve()
assert pathlib.Path(sys.argv[1]).resolve() in home.parents, f"imported from {home}"
assert (home.parent / "py.typed").exists() and (home.parent / "_core.pyi").exists()
model = torch.nn.Linear(8, 4)
optimizer = ClippedScion(model, lr=0.1, alpha=0.5, rho=1.0)
model(torch.randn(16, 8)).square().mean().backward()
optimizer.step()
print(normball.__version__, home, optimizer.report.s)
END

echo "== pip install ."
# From a copy of what it needs: builds by pip write into the sources.
mkdir source
for part in CMakeLists.txt LICENSE README.md cmake normball pyproject.toml python setup.py; do
  cp -r "$source/$part" source
done
"$python" -m venv --system-site-packages environment
environment/bin/python -m pip install --no-build-isolation --no-index --no-deps --quiet ./source
environment/bin/python use.py environment
shown=$(environment/bin/python -m pip show normball | sed -n 's/^Version: //p')
imported=$(environment/bin/python -c 'import normball; print(normball.__version__)')
[ "$shown" = "$imported" ] || { echo "pip says version $shown, the module $imported" >&2; exit 1; }

echo "== cmake --install"
"$CMAKE" --install "$build" --prefix "$work/prefix" --component python >/dev/null
PYTHONPATH="$work/prefix/$python_dir" "$python" use.py prefix
