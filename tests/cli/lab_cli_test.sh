#!/usr/bin/env bash
# The exit codes and messages of `normball lab`.
#   lab_cli_test.sh NORMBALL WORK_DIRECTORY
set -euo pipefail
normball=$1
work=$2
mkdir -p "$work"
failures=0

# expect CODE TEXT ARGUMENTS...: the exit code, and a text in what is printed
expect() {
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$normball" lab "$@" 2>&1) || status=$?
  if [ "$status" != "$code" ] || ! grep -qF -- "$text" <<<"$output"; then
    echo "normball lab $*: exit code $status (expected $code), or no '$text' in:"
    echo "$output"
    failures=$((failures + 1))
  fi
}

expect 0 "thm:det:GGNC"
expect 0 "--seeds" all --help
expect 0 "--problem" check --help
expect 0 "--svg" picture --help
expect 0 "pass" check descent --norm sign --problem cosh --quick
expect 0 "pass" check ggnc --norm "spectral(unit)" --problem quadratic --quick
expect 0 "refuted" check printed-ggnc --quick
expect 1 "FAIL" check descent --norm euclidean --problem quadratic --quick --stepsize-factor 4
expect 2 "normball: [lab] unknown statement 'desent'" check desent
expect 2 "did you mean 'descent'" check desent
expect 2 "did you mean 'spectral'" check descent --norm spektral
expect 2 "did you mean 'cosh'" check descent --problem kosh
expect 2 "no statement applies" check ggnc --problem factorization
expect 2 "no constants" picture --problem factorization
expect 1 "error while opening for writing" check lengths --quick --json "$work/missing/file.json"
expect 0 "1 row, 0 violated, 0 printed forms" check ggnc --quick --norm sign --problem cosh
expect 2 "statement is required" check
# Ended by a signal, it leaves nothing that is not whole.
"$normball" lab all --json "$work/ended.json" --html "$work/ended.html" >/dev/null 2>"$work/progress" &
for _ in $(seq 1200); do
  [ -s "$work/progress" ] && break
  sleep 0.05
done
kill -TERM $!
wait $! 2>/dev/null || true
[ ! -e "$work/ended.json" ] && [ ! -e "$work/ended.html" ] ||
  { echo "lab left files that are not whole:"; ls -l "$work"/ended.*; failures=$((failures + 1)); }
expect 2 "--seeds" all --seeds 0
expect 2 "ggnc is not stochastic" check ggnc --quick --norm sign --problem cosh --seeds 5
expect 0 "pass" check ggnc-stochastic --quick --norm sign --problem cosh --seeds 3
expect 2 "must be an integer in [2, 10000], got 2.5" all --seeds 2.5
once=$("$normball" lab check descent --quick --norm sign --problem cosh 2>/dev/null | grep -c cosh)
[ "$("$normball" lab check descent --quick --norm sign sign --problem cosh 2>/dev/null | grep -c cosh)" = "$once" ] ||
  { echo "a norm given twice is checked twice"; failures=$((failures + 1)); }
expect 2 "--sedes" all --sedes 3
expect 0 "written to" picture --norm row --problem exp --steps 50 --svg "$work/picture.svg"
expect 0 "written to" check lengths --quick --norm sign --json "$work/rows.json" --html "$work/page.html"
expect 2 "are the same file" check lengths --quick --norm sign --json "$work/a.x" --html "$work/a.x"
expect 2 "are the same file" check lengths --quick --norm sign --json "$work/rows.json" --html "$work/./rows.json"
expect 0 "written to" check lengths --quick --norm sign --json /dev/null --html /dev/null
[ ! -e "$work/a.x" ]
grep -q '"statement": "lengths"' "$work/rows.json"
grep -q "<svg" "$work/picture.svg"
grep -q "</html>" "$work/page.html"
exit "$((failures > 0))"
