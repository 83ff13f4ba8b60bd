#!/usr/bin/env bash
# The program and the library where OpenBLAS does not know the processor, which a library loaded
# before it pretends: environment_test.sh PROGRAM POOR_OPENBLAS EXAMPLE
set -euo pipefail
program=$1 poor=$2 example=$3
unset OPENBLAS_CORETYPE NORMBALL_ENVIRONMENT NORMBALL_QUIET
grep -qw avx /proc/cpuinfo || { echo "left out: without AVX the poor kernels are the best"; exit 77; }

fail() { echo "environment_test: $*" >&2; exit 1; }
run() {  # code of a command, with its output in $out and $err
  code=0
  out=$(mktemp) err=$(mktemp)
  timeout 60 "$@" >"$out" 2>"$err" || code=$?
}

# Starts itself once more, and only once: the pretence goes on there.
run env LD_PRELOAD="$poor" "$program" doctor
[ $code -eq 1 ] || fail "doctor ended with $code, expected 1"
grep -q "the program set OPENBLAS_CORETYPE for itself" "$out" || fail "no new environment: $(cat "$out")"
# The user's choice counts.
run env LD_PRELOAD="$poor" OPENBLAS_CORETYPE=PRESCOTT "$program" doctor
grep -q "for itself" "$out" && fail "the user's choice was replaced"
# Exit codes and output are those of the program started once.
run env LD_PRELOAD="$poor" "$program" bnch
[ $code -eq 2 ] && grep -q "did you mean 'bench'" "$err" || fail "a typo ended with $code: $(cat "$err")"
run env LD_PRELOAD="$poor" "$program" --version
[ $code -eq 0 ] && [ "$(cat "$out")" = "$("$program" --version)" ] || fail "--version: $code"
# Signals reach it: it is the same process.
LD_PRELOAD="$poor" "$program" bench --rounds 1000 --no-lmo --no-pass >/dev/null 2>&1 &
child=$!
sleep 1
kill -TERM $child
code=0; wait $child || code=$?
[ $code -eq 143 ] || fail "after SIGTERM $code, expected 143"
# What a parent chose for itself does not keep a command from what it wants in addition.
environment_of() {  # of a process, once it computes
  for _ in $(seq 100); do
    tr '\0' '\n' <"/proc/$1/environ" >"$out"
    if grep -q '^GOMP_SPINCOUNT=' "$out"; then break; fi
    sleep 0.1
  done
}
if [ "$(nproc)" -gt 1 ]; then
  env -u OMP_WAIT_POLICY NORMBALL_ENVIRONMENT=OPENBLAS_CORETYPE OPENBLAS_CORETYPE=PRESCOTT \
    "$program" bench --rounds 1000 --no-lmo --no-pass >/dev/null 2>&1 &
  child=$!
  environment_of $child
  kill -TERM $child
  wait $child || true
  grep -qx 'GOMP_SPINCOUNT=1000' "$out" || fail "a child of a program that set its environment waits as OpenMP likes"
  grep -qx 'NORMBALL_ENVIRONMENT=OPENBLAS_CORETYPE GOMP_SPINCOUNT' "$out" || fail "not recorded: $(grep NORMBALL "$out")"
fi
# Commands that use LibTorch are in a program beside it, where there is one.
if [ -e "$(dirname "$program")/normball-torch" ]; then
  alone=$(mktemp -d)
  cp "$program" "$alone/normball"
  run "$alone/normball" config --list
  [ $code -eq 0 ] || fail "config needs the program with LibTorch: $(cat "$err")"
  run "$alone/normball" train
  [ $code -eq 1 ] && grep -q "cannot start .*normball-torch.*: No such file" "$err" || fail "train without it: $code $(cat "$err")"
  rm -r "$alone"
fi
# A good machine is left as it is.
run "$program" doctor --json
grep -q "OPENBLAS_CORETYPE for itself" "$out" && fail "a good choice was replaced"
# What the environment keeps below the processor is named, with the variable that does it.
if grep -qw avx2 /proc/cpuinfo; then
  run env NORMBALL_KERNELS=generic ONEDNN_MAX_CPU_ISA=SSE41 ATEN_CPU_CAPABILITY=default "$program" doctor
  [ $code -eq 1 ] || fail "doctor on held-down kernels ended with $code, expected 1"
  held=(NORMBALL_KERNELS)
  if grep -q "^[a-z]*  *oneDNN" "$out"; then held+=(ONEDNN_MAX_CPU_ISA ATEN_CPU_CAPABILITY); fi
  for variable in "${held[@]}"; do
    grep -q -- "-> unset $variable (it is" "$out" || fail "does not name $variable: $(cat "$out")"
  done
fi

# The library cannot start again: one warning, which names the remedy and can be silenced.
run env LD_PRELOAD="$poor" "$example"
[ $code -eq 0 ] || fail "the example ended with $code"
[ "$(grep -c "start the program with OPENBLAS_CORETYPE=" "$err")" -eq 1 ] || fail "no warning, or several: $(cat "$err")"
run env LD_PRELOAD="$poor" NORMBALL_QUIET=1 "$example"
[ ! -s "$err" ] || fail "not quiet: $(cat "$err")"
run env LD_PRELOAD="$poor" OPENBLAS_CORETYPE=PRESCOTT "$example"
[ ! -s "$err" ] || fail "a warning of what was asked for: $(cat "$err")"
