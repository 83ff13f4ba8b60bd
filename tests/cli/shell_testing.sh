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

# same_metrics RUN RUN: the same but for the clock.
same_metrics() {
  cmp <(without_times "$1/metrics.jsonl") <(without_times "$2/metrics.jsonl") || fail "$1 and $2 differ"
}
# The results of a sweep, likewise.
results() { sed -E 's/"seconds":[^,]*//' "$1/results.jsonl"; }

contains() { # FILE TEXT
  grep -qF -- "$2" "$1" || fail "$1 lacks '$2': $(cat "$1")"
}

# kill_at_random COMMAND...: started 20 times and killed within a second each; SEED=N repeats the moments.
kill_at_random() {
  local seed=${SEED:-$RANDOM} pause
  echo "SEED=$seed"
  RANDOM=$seed
  for _ in $(seq 20); do
    pause=$(printf '0.%03d' $((RANDOM % 1000)))
    "$@" >/dev/null 2>&1 &
    sleep "$pause"
    kill -9 $! 2>/dev/null || true
    wait $! 2>/dev/null || true
  done
}

# ended_early CODE RUN: the exit code of what SIGTERM ended right after its start, with its output in the file out.
ended_early() {
  case $1 in
    143) [ ! -e "runs/$2" ] || fail "a run that did not begin: $(find "runs/$2")" ;;
    0) grep -q "stopped after step" out || fail "SIGTERM at the start: $(cat out)" ;;  # it was faster
    *) fail "SIGTERM at the start: exit code $1" ;;
  esac
}

# make_text LINES: text.txt here.
make_text() {
  local i
  for i in $(seq "$1"); do echo "Line $i: the quick brown fox, $((i * 7919 % 1000)) times."; done >text.txt
}

# a.jpg and b.png here.
make_pictures() {
  base64 -d >a.jpg <<<"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAAeACgDASIAAhEBAxEB/8QAGQAAAgMBAAAAAAAAAAAAAAAAAAMBBAUC/8QAJBAAAQQCAQQCAwAAAAAAAAAAAQACAxESITEFE0FhIlEEFJH/xAAYAQADAQEAAAAAAAAAAAAAAAABAgMEAP/EAB4RAAICAgMBAQAAAAAAAAAAAAECABEDIRITUQRB/9oADAMBAAIRAxEAPwB7HMc6tFxKtOhEoOydfxYTi5khp2x5C0ukzFz39x5dxQJXP8jJi7b1AV1ZjC5oOJv6RhUZDhlQ0rU7IYXDLV7CRPKHx1HyOCFiDRamYbDzYu0JsrHtAJdROhaFQkeRN+yrHhIXZH5BO/GthIZs3yuTE2Nli8uEwXFj5CJyOy8b1KE0Jec10kVynYSIDUzmi8QNKXSHFv15VZsro5Mz8rFJBj7DwH7AjFWuT1OGWXtiMmst+vaF3+4SQAzn2hbwMGMBWOxJM2Uk0J//2Q=="
  base64 -d >b.png <<<"iVBORw0KGgoAAAANSUhEUgAAABAAAAAMBAMAAACZySCyAAAAGFBMVEWvyHWCtIWjok5woW16j0RciExYdDdlP7nBOgW8AAAAaElEQVR42iXGuw2DMBQF0AsT8JNorZdMEDA1NnYWAD8WgFtToLA+kTjVwdt8XFfbBG8Kk49DQm+QO8QEdRCXvRas1wFg55Nqsv+ciF4GUBffByEY2FWUH/jdiiZICzJOVssSYee86aU3SpsWvDX/Hp0AAAAASUVORK5CYII="
}
