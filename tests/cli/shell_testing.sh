# What the scripts here share; sourced by them. $normball is the program.

fail() { echo "FAILED: $*" >&2; exit 1; }

# For scripts that go through all their cases: they end with exit "$((failures > 0))".
failures=0
problem() {
  echo "$*"
  failures=$((failures + 1))
}

# expect_error COMMAND TEXTS...: a failure whose message has every one of the texts, and at most $longest_error lines.
longest_error=1000
expect_error() {
  local command=$1 text
  shift
  if eval "$command" >out 2>err; then fail "no error from: $command"; fi
  [ "$(wc -l <err)" -le "$longest_error" ] || fail "a long error from: $command: $(cat err)"
  for text in "$@"; do
    grep -qF -- "$text" err || fail "'$text' is not in the error of: $command: $(cat err)"
  done
}

# The metrics of a run, except what depends on the clock.
without_times() { sed -E 's/, "(seconds|[a-z]+_per_second)": [0-9.e+-]+//g' "$1"; }

# same_runs A B STEP: the same weights, state and metrics at this step.
same_runs() {
  local file
  for file in model optimizer; do
    cmp "runs/$1/checkpoints/step-$3/$file.safetensors" \
        "runs/$2/checkpoints/step-$3/$file.safetensors" || fail "$1 and $2 differ in $file"
  done
  cmp <(without_times "runs/$1/metrics.jsonl") <(without_times "runs/$2/metrics.jsonl") ||
    fail "$1 and $2 differ in their metrics"
}
