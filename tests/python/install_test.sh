#!/bin/sh
# The package by pip: a source distribution, a wheel from that alone, its contents, and a step in a fresh environment.
#   install_test.sh SOURCE WORK PYTHON
# scikit-build-core is PYTHON's own or else from the package index; without either this is skipped (77).
set -eu
unset PYTHONPATH  # or the package there would be found first
source=$1 work=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"

echo "== build requirements"
"$python" -m venv --system-site-packages tools
if ! tools/bin/python -c 'import scikit_build_core' 2>/dev/null &&
  ! tools/bin/python -m pip install --quiet --retries 0 --timeout 20 scikit-build-core 2>pip.log; then
  cat pip.log
  echo "skipped: scikit-build-core is neither installed for $python nor is there a package index"
  exit 77
fi

echo "== source distribution"
(cd "$source" && "$work/tools/bin/python" -c 'import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1])' "$work/sdist")
tar -tzf sdist/normball-*.tar.gz >contents.txt
for part in CMakeLists.txt LICENSE README.md cmake/Require.cmake normball/polar.cpp python/module.cpp python/normball/py.typed; do
  grep -q "^normball-[0-9.]*/$part\$" contents.txt || { echo "the source distribution has no $part" >&2; exit 1; }
done
if grep -E '^[^/]*/(build|runs|\.git)/|\.(so|o|a|pyc)$' contents.txt; then
  echo "the source distribution has these, which are no sources" >&2
  exit 1
fi

echo "== wheel, unoptimized: a third of the time, and the optimized form is what the other tests run"
export CXXFLAGS=-O0
tools/bin/python -m pip wheel --no-build-isolation --no-index --no-deps --quiet --wheel-dir wheel \
  --config-settings=cmake.build-type=None sdist/normball-*.tar.gz
"$python" - wheel/normball-*.whl "$source/python/normball" <<'PROGRAM'
import pathlib, re, sys, zipfile
names = {name for name in zipfile.ZipFile(sys.argv[1]).namelist() if ".dist-info/" not in name}
module = {name for name in names if re.fullmatch(r"normball/_core\..*\.so", name)}
sources = {f"normball/{path.name}" for path in pathlib.Path(sys.argv[2]).iterdir() if path.is_file()}
assert len(module) == 1 and names == sources | module, f"the wheel differs from the package: {names ^ sources}"
PROGRAM

echo "== a fresh environment"
"$python" -m venv --system-site-packages environment
environment/bin/python -m pip install --no-index --no-deps --quiet wheel/normball-*.whl
imported=$(environment/bin/python "$here/use.py" environment)
shown=$(environment/bin/python -m pip show normball | sed -n 's/^Version: //p')
written=$(sed -n 's/^project(normball VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
[ "$shown" = "$written" ] && [ "$imported" = "$written" ] || {
  echo "CMakeLists.txt has version '$written', pip shows '$shown', the module '$imported'" >&2
  exit 1
}
