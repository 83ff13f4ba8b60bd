#!/usr/bin/env bash
# `normball experiment` as a user has it: experiment_cli_test.sh NORMBALL WORK_DIRECTORY SOURCE_DIRECTORY
set -euo pipefail
normball=$(realpath "$1")
scripts=$(realpath "$(dirname "$0")")
. "$scripts/shell_testing.sh"
source=$(realpath "$3")
rm -rf "$2"
mkdir -p "$2"
cd "$2"

# Those of the project: listed, and each configuration is one, without any data being there.
"$normball" experiment list >list.txt
for file in "$source"/experiments/*/experiment.toml; do
  folder=$(dirname "$file")
  contains list.txt "$(basename "$folder")"
  "$normball" experiment run "$(basename "$folder")" --dry-run >out.txt
  "$normball" experiment run "$(basename "$folder")" --quick --dry-run >out.txt
  contains out.txt "0 runs to tune"
done

for file in $(grep -l '^\[\[axis\]\]' "$source"/experiments/*/*.toml); do  # and the sweeps
  [ "$(basename "$file")" = experiment.toml ] && continue
  "$normball" sweep "$file" --dry-run >out.txt || fail "$file is no sweep"
done

# One of our own, of which seconds are enough.
export NORMBALL_EXPERIMENTS=$PWD/experiments
mkdir -p experiments/lr
cp "$scripts/tiny_gpt.toml" experiments/
yes 'The quick brown fox jumps over the lazy dog.' | head -c 20000 >text.txt || true
cat >experiments/lr/experiment.toml <<'T'
title = "A step that is not 0 is better"
question = "Is it?"
statement = "Ours."
measured = "The last validation loss."
base = "tiny_gpt"
set = ["run.steps=6", "run.eval_every=3", "run.log_every=1", "run.checkpoint_every=2"]
metric = "val_loss"
tuning_seeds = [9]
seeds = [1, 2, 3, 4, 5]
[quick]
set = ["run.eval_every=0"]
seeds = [1, 2]
[[arm]]
name = "moves"
set = ["optimizer.method=unconstrained_scion"]
axis = [{ key = "optimizer.lr", values = [1e-8, 0.02, 1e3] }]
quick = ["optimizer.lr=0.02"]
[[arm]]
name = "stays"
set = ["optimizer.method=unconstrained_scion"]
axis = [{ key = "optimizer.lr", values = [{ label = "a", set = ["optimizer.lr=1e-9"] }, { label = "b", set = ["optimizer.lr=2e-9"] }, { label = "c", set = ["optimizer.lr=3e-9"] }] }]
quick = ["optimizer.lr=1e-9"]
[[claim]]
text = "Moving is better"
kind = "better"
a = "moves"
b = "stays"
margin = 0.01
T
"$normball" experiment list >out.txt
contains out.txt "not run"
contains out.txt "statement"
"$normball" experiment report lr >out.txt
contains out.txt "There are no runs yet"

"$normball" experiment run lr --quick >out.txt 2>/dev/null
contains out.txt "a quick run decides nothing"
contains out.txt "moves better than stays by"
[ -s runs/experiments/lr-quick/experiment.html ] || fail "no page of the quick runs"
[ ! -e experiments/lr/results.jsonl ] || fail "a quick run was recorded"
contains runs/experiments/lr-quick/experiment.html "Measured here: the same with other settings, <code>run.eval_every=0</code>"
contains runs/experiments/lr-quick/curves.svg "<circle"

# Killed at some moments, it ends with the verdict of one that was not.
for pause in 0.3 0.9 1.5; do
  "$normball" experiment run lr --record >/dev/null 2>&1 &
  sleep "$pause"
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
done
"$normball" experiment run lr --record >out.txt 2>err.txt
contains out.txt "lr: holds here"
contains out.txt "lr 0.02"
[ "$(wc -l <experiments/lr/results.jsonl)" -eq 16 ] || fail "not 16 results: 3 + 5 for each arm"
contains experiments/lr/verdict.txt "Moving is better: holds here; moves better than stays by"
for file in experiment.html curves.svg dual-norm.svg tuning-moves-over-lr.svg; do
  [ -s "runs/experiments/lr/$file" ] || fail "no $file"
done
"$normball" experiment run lr --into whole >whole.txt 2>/dev/null
diff <(grep -F 'Moving is better' out.txt) <(grep -F 'Moving is better' whole.txt) || fail "another verdict"

# A signal while runs are trained: they save, and the same command goes on.
"$normball" experiment run lr --into stopped --set run.steps=2000 >/dev/null 2>err.txt &
for _ in $(seq 600); do
  if ls stopped/*/*/*/checkpoints/step-* >/dev/null 2>&1; then break; fi
  sleep 0.1
done
kill -TERM $!
code=0
wait $! || code=$?
[ "$code" -eq 1 ] || fail "exit code $code of an experiment stopped by a signal: $(cat err.txt)"
contains err.txt "the same command continues"

# What the runs decide is no failure.
mkdir experiments/turned
sed -e '/^a = /s/moves/stays/' -e '/^b = /s/stays/moves/' experiments/lr/experiment.toml >experiments/turned/experiment.toml
"$normball" experiment run turned --into turned >out.txt 2>err.txt || fail "exit code $? where the claim does not hold: $(cat err.txt)"
contains out.txt "does not hold"
rm -r experiments/turned

# Recorded results are enough for the verdict, and nothing of them is run again.
rm -rf runs
"$normball" experiment list >out.txt
contains out.txt "holds here"
"$normball" experiment report lr >out.txt
contains out.txt "From the results that the folder of the experiment has"
contains out.txt "lr: holds here"
"$normball" experiment run lr --record >out.txt 2>err.txt
contains err.txt "6 of 6 runs are there already"
contains err.txt "10 of 10 runs are there already"
[ ! -e runs/experiments/lr/moves ] || fail "a recorded run was run again"

wrong() { # CODE TEXT ARGUMENTS...
  local code=0 expected=$1 text=$2
  shift 2
  "$normball" experiment "$@" >out.txt 2>err.txt || code=$?
  [ "$code" -eq "$expected" ] || fail "exit code $code, not $expected, of: experiment $*: $(cat err.txt)"
  contains err.txt "$text"
}
wrong 1 "did you mean 'lr'" run lrr
wrong 2 "--record" run lr --record --quick
wrong 2 "--record" run lr --record --set run.steps=3
wrong 2 "unknown key" run lr --quick --dry-run --set optimizer.lrr=1
wrong 1 "creating the directory /proc/x" run lr --into /proc/x --dry-run

# What belongs to another experiment is recorded there.
mkdir experiments/borrows
sed -e '/^name = "stays"/,/^quick/{/^name/!d;s/$/\nof = "lr"/}' experiments/lr/experiment.toml >experiments/borrows/experiment.toml
cp -r experiments/lr lr-before
rm experiments/lr/results.jsonl
"$normball" experiment run borrows --record >out.txt 2>/dev/null
contains out.txt "borrows: holds here"
[ "$(wc -l <experiments/borrows/results.jsonl)" -eq 8 ] || fail "not 8 results of its own arm"
diff <(grep '"arm":"stays"' lr-before/results.jsonl | sed 's/"seconds":[^,]*//') \
  <(sed 's/"seconds":[^,]*//' experiments/lr/results.jsonl) || fail "the other's runs are not in its folder"

# A run that fails is said, and tried again.
rm -rf runs
mkdir -p runs/experiments/lr-quick/moves/seed-1
echo "not a directory" >runs/experiments/lr-quick/moves/seed-1/checkpoints
wrong 1 "1 run failed" run lr --quick
rm -rf runs/experiments/lr-quick/moves/seed-1
"$normball" experiment run lr --quick >out.txt 2>/dev/null
contains out.txt "moves better than stays by"
echo "experiment_cli_test: passed"
