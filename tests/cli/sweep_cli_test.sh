#!/usr/bin/env bash
# `normball sweep` as a user has it: sweep_cli_test.sh NORMBALL WORK_DIRECTORY
set -euo pipefail
normball=$(realpath "$1")
scripts=$(realpath "$(dirname "$0")")
. "$scripts/shell_testing.sh"
rm -rf "$2"
mkdir -p "$2"
cd "$2"
cp "$scripts/tiny_gpt.toml" .

yes 'The quick brown fox jumps over the lazy dog.' | head -c 20000 >text.txt || true
cat >tiny.toml <<'T'
extends = "tiny_gpt"
[run]
steps = 6
log_every = 1
eval_every = 3
checkpoint_every = 2
[optimizer]
method = "unconstrained_clipped_scion"
rho = 1.0
lr = 0.05
T
cat >lr.toml <<'T'
base = "tiny"
seeds = [3, 4]
metric = "val_loss"
[[axis]]
key = "optimizer.rho"
values = [{ label = "no clip", set = ["optimizer.method=unconstrained_scion"] }, 1.0]
[[axis]]
key = "optimizer.lr"
values = [0.02, 0.1]
T

"$normball" sweep lr.toml --dry-run >out.txt
contains out.txt "8 runs into runs/lr/"
"$normball" sweep --base tiny.toml --axis optimizer.lr=0.1 --dry-run >one.txt
contains one.txt "1 run into runs/"
[ ! -e runs ] || fail "a dry run wrote something"
# It refuses what the sweep would refuse before the first run.
mkdir taken damaged
touch a_file
printf 'no JSON\n\n{}\n' >damaged/results.jsonl
expect_error '"$normball" sweep lr.toml --into /proc/x --dry-run' "creating the directory /proc/x"
expect_error '"$normball" sweep lr.toml --into a_file/x --dry-run' "a_file"
expect_error '"$normball" sweep lr.toml --into damaged --dry-run' "damaged/results.jsonl:1"
touch taken/.sweep.lock
flock taken/.sweep.lock "$normball" sweep lr.toml --into taken --dry-run >out.txt 2>err.txt && fail "another sweep is there"
contains err.txt "taken is used by another sweep"
"$normball" sweep lr.toml --into taken --dry-run >out.txt
rm -r taken damaged a_file

"$normball" sweep lr.toml >out.txt 2>err.txt
contains out.txt "best"
contains out.txt "budget: 8 runs of 6 steps"
for file in results.jsonl results.csv sweep.html heat-map.svg curves.svg; do
  [ -s "runs/lr/$file" ] || fail "no $file"
done
[ "$(wc -l <runs/lr/results.jsonl)" -eq 8 ] || fail "not 8 results"
# What the sweep adds to its runs, in processor time, which does not depend on how busy the machine is.
costs=$(sed -nE 's/^the runs took ([0-9.]+) s of processor time, the sweep itself ([0-9.]+) s$/\1 \2/p' err.txt)
awk -v costs="$costs" 'BEGIN { split(costs, c, " "); exit !(c[1] > 0 && c[2] < 0.1 * c[1]) }' ||
  fail "a sweep that costs more than a tenth of its runs: '$costs'"
contains runs/lr/heat-map.svg "no clip"

# A cell is the same run as `normball train` makes, and an ordinary run directory.
"$normball" train tiny.toml --name alone --set optimizer.rho=1 --set optimizer.lr=0.1 --set run.seed=4 \
  --set run.threads=1 >/dev/null 2>&1
same_metrics runs/alone runs/lr/rho-1_lr-0.1_seed-4
"$normball" eval runs/lr/rho-1_lr-0.1_seed-4 >/dev/null

# Again: nothing is left to run. One more value: only its cells.
cp runs/lr/results.jsonl before.jsonl
"$normball" sweep lr.toml >out.txt 2>err.txt
contains err.txt "8 of 8 runs are there already"
cmp before.jsonl runs/lr/results.jsonl || fail "results changed without a run"
sed -i 's/values = \[0.02, 0.1\]/values = [0.02, 0.05, 0.1]/' lr.toml
"$normball" sweep lr.toml >out.txt 2>err.txt
contains err.txt "8 of 12 runs are there already"
contains out.txt "budget: 12 runs"

# Killed at 20 random moments and started again, it ends with the same results.
kill_at_random "$normball" sweep lr.toml --into killed
"$normball" sweep lr.toml --into killed >/dev/null 2>&1
for cell in runs/lr/*/; do same_metrics "$cell" "killed/$(basename "$cell")"; done
cmp <(results runs/lr) <(results killed) ||
  fail "the results of the killed sweep differ"

# A cell that fails is recorded and stops nobody; the exit code says so.
mkdir -p runs/fails/lr-0.1_seed-0
echo "not a directory" >runs/fails/lr-0.1_seed-0/checkpoints
code=0
"$normball" sweep --base tiny.toml --name fails --axis optimizer.lr=0.02,0.1 >out.txt 2>err.txt || code=$?
[ "$code" -eq 1 ] || fail "exit code $code of a sweep in which a cell failed"
contains out.txt "1 failed"
contains err.txt "1 of 2 runs failed"

# A stop signal: the runs save, nothing is recorded for them, and the same command continues.
"$normball" sweep lr.toml --set run.steps=2000 --into stopped >out.txt 2>err.txt &
sweep=$!
for _ in $(seq 600); do
  if ls stopped/*/checkpoints/step-* >/dev/null 2>&1; then break; fi
  sleep 0.1
done
kill -TERM $sweep  # a shell starts background jobs with SIGINT ignored
code=0
wait $sweep || code=$?
[ "$code" -eq 1 ] || fail "exit code $code of a sweep stopped by a signal: $(cat err.txt)"
contains err.txt "the same command continues"
[ ! -s stopped/results.jsonl ] || fail "a stopped run counts as a result"
ls stopped/*/checkpoints/step-* >/dev/null || fail "the stopped runs did not save"

# One evaluation is no curve; a label on an axis of numbers is a level; the damaged results have a remedy.
"$normball" sweep --base tiny.toml --name short --set run.eval_every=0 --metric val_loss \
  --axis "key = 'optimizer.rho', values = [{ label = 'no clip', set = ['optimizer.method=unconstrained_scion'] }, 0.1, 1, 10]" \
  >out.txt 2>err.txt
[ ! -e runs/short/curves.svg ] || fail "a curve of one evaluation"
contains runs/short/over-rho.svg "no clip"
printf '{"cell":' >>runs/short/results.jsonl
"$normball" sweep --base tiny.toml --name short --set run.eval_every=0 --seeds 0 1 >out.txt 2>err.txt
contains err.txt "results.jsonl:5 is cut off or damaged, and left out"
[ "$(wc -l <runs/short/results.jsonl)" -eq 6 ] || fail "the line that was cut off is still there"
sed -i '2i{"cell":' runs/short/results.jsonl
code=0
"$normball" sweep --base tiny.toml --name short --set run.eval_every=0 --seeds 0 1 >out.txt 2>err.txt || code=$?
[ "$code" -eq 1 ] || fail "exit code $code with damaged results"
contains err.txt "remove the line"
if grep -q "json.exception" err.txt; then fail "the text of an exception: $(cat err.txt)"; fi
code=0
"$normball" report runs/short >out.txt 2>err.txt || code=$?
[ "$code" -ne 0 ] || fail "report on a sweep's directory"
contains err.txt "is the directory of a sweep"

# Methods over factors of their own lr: curves, of which a report of other axes leaves none.
method="name = 'method', key = 'optimizer.method', values = [{ label = 'scion', set = ['optimizer.method=unconstrained_scion', 'optimizer.lr=0.02'] }, { label = 'adamw', set = ['optimizer.method=adamw', 'optimizer.lr=0.001'] }]"
factors="factor_of = 'optimizer.lr', values = [0.3, 1, 3]"
"$normball" sweep --base tiny.toml --name flat --axis "$method" --axis "$factors" >out.txt 2>err.txt
contains runs/flat/method-adamw_lr-factor-3_seed-0/config.toml "lr = 0.003"
for file in over-lr-factor.svg over-lr-factor-of-best.svg heat-map.svg; do [ -s "runs/flat/$file" ] || fail "no $file"; done
contains runs/flat/sweep.html "lr factor / the best of each"
"$normball" sweep --base tiny.toml --name flat --seeds 0 1 >out.txt 2>err.txt
[ -z "$(find runs/flat -maxdepth 1 -name 'over-*')" ] || fail "pictures of other axes"

# A run whose directory was deleted is run again.
rm -r runs/lr/*_lr-0.05_seed-3
"$normball" sweep lr.toml >out.txt 2>err.txt
contains err.txt "runs are there already"
[ "$(find runs/lr -maxdepth 1 -name '*_lr-0.05_seed-3' | wc -l)" -eq 2 ] || fail "deleted runs were not run again"

# Made longer, a sweep has the results of one of that length from the start; also where its base says so.
grown() { # STEPS ARGUMENTS...
  "$normball" sweep --base tiny.toml --name grown --axis optimizer.lr=0.02,0.1 --set run.eval_every=2 \
    --set run.log_every=2 --set "run.steps=$1" "${@:2}" >out.txt 2>err.txt
}
grown 7
grown 8
grown 8 --into afresh
cmp <(results runs/grown) <(results afresh) || fail "results depend on where the runs ended at first"
cp tiny.toml longer.toml
"$normball" sweep --base longer.toml --axis optimizer.lr=0.02,0.1 >out.txt 2>err.txt
contains out.txt "budget: 2 runs of 6 steps"
sed -i 's/steps = 6/steps = 8/' longer.toml
"$normball" sweep --base longer.toml --axis optimizer.lr=0.02,0.1 >out.txt 2>err.txt
contains out.txt "budget: 2 runs of 8 steps"
# It cannot be made shorter, and that is said before anything runs.
rm -r runs/grown/lr-0.02_seed-0
cp runs/grown/results.jsonl before.jsonl
code=0
grown 7 || code=$?
[ "$code" -eq 1 ] || fail "exit code $code of a sweep that is made shorter"
contains err.txt "runs/grown/lr-0.1_seed-0 has taken 8 steps, more than run.steps = 7"
cmp before.jsonl runs/grown/results.jsonl || fail "results changed"
[ ! -e runs/grown/lr-0.02_seed-0 ] || fail "a run was started"

# A part of it: how much is there, and nothing about the ends of axes.
"$normball" sweep --base tiny.toml --name part --axis optimizer.lr=0.1 >out.txt 2>err.txt
"$normball" sweep --base tiny.toml --name part --axis optimizer.lr=0.1,0.2,0.5 --report >out.txt 2>err.txt
contains out.txt "1 of 3 runs is there: the best is the best so far"
if grep -q "may lie beyond" out.txt; then fail "the end of an axis that was not tried: $(cat out.txt)"; fi

# Without any result the answer is no.
code=0
"$normball" sweep --base tiny.toml --name diverges --set optimizer.method=gd --set run.steps=30 --axis optimizer.lr=1e25,1e26 \
  >out.txt 2>err.txt || code=$?
[ "$code" -eq 1 ] || fail "exit code $code of a sweep of which all runs diverged: $(cat out.txt err.txt)"
contains err.txt "no run has a result: all that ended diverged"
contains out.txt "2 cells diverged"

# `train` puts no run among the cells.
for name in lr longer; do
  code=0
  "$normball" train longer.toml --name $name >out.txt 2>err.txt || code=$?
  [ "$code" -eq 1 ] || fail "exit code $code of a run in the directory of a sweep"
  contains err.txt "runs/$name is the directory of a sweep"
  [ ! -e runs/$name/config.toml ] || fail "a run was started in the directory of a sweep"
done
"$normball" sweep lr.toml >out.txt 2>err.txt

# Wrong ways to ask: exit code 2, or 1 with the reason, and nothing is started.
wrong() { # CODE TEXT ARGUMENTS...
  local code=0 expected=$1 text=$2
  shift 2
  "$normball" sweep "$@" >out.txt 2>err.txt || code=$?
  [ "$code" -eq "$expected" ] || fail "exit code $code, not $expected, of: sweep $*: $(cat err.txt)"
  contains err.txt "$text"
}
wrong 2 "name a sweep file"
wrong 2 "not both" lr.toml --base tiny.toml
wrong 2 "unknown metric" lr.toml --metric foo --dry-run
wrong 2 "unknown summary" lr.toml --metric "loss median" --dry-run
wrong 2 "is for images; model.kind gpt has" lr.toml --metric val_accuracy --dry-run
wrong 2 "or --seeds" lr.toml --set run.seed=4
wrong 2 "run.name is set by the sweep" --base tiny.toml --axis run.name=a,b
wrong 2 "run.resume is set by the sweep" --base tiny.toml --axis run.resume=a,b
wrong 2 "run.seed is set by the sweep" --base tiny.toml --axis "factor_of = 'run.seed', values = [1, 2]"
wrong 2 "neither set nor another axis gives" --base tiny.toml --axis "factor_of = 'optimizer.rho', values = [1, 2]"
wrong 2 "give values a label" --base tiny.toml --axis "data.path=text.txt,$(printf 'x%.0s' $(seq 250))"
wrong 1 "is the directory of a run" lr.toml --into runs/alone
wrong 2 "excludes" lr.toml --dry-run --report
wrong 2 "nothing to change" --base tiny.toml
wrong 2 "--axis" --base tiny.toml --axis optimizer.lr
wrong 2 "unknown key" --base tiny.toml --axis optimizer.lrr=1,2
wrong 1 "another configuration (data.path" lr.toml --set data.path=elsewhere.txt
wrong 1 "another configuration (eval.batches" lr.toml --set eval.batches=1
wrong 1 "another configuration" lr.toml --set run.steps=7 --set schedule.kind=linear
wrong 2 "two cells are called lr-0.01_seed-0" --base tiny.toml --axis optimizer.lr=0.01,0.01 --dry-run
wrong 2 "two cells are called" lr.toml --seeds 0 0
printf 'base = "tiny"\n[[axis]]\nkey = "optimizer.lr"\nvalues = [0.1, 0.10]\n' >twice.toml
wrong 1 "two cells are called" twice.toml
wrong 2 "optimizer.lr is given twice, by --set optimizer.lr=0.2 and on --axis lr; leave one out" \
  --base tiny.toml --axis optimizer.lr=0.1 --set optimizer.lr=0.2
wrong 2 "by --set optimizer.lr=0.2 and on the axis lr" lr.toml --set optimizer.lr=0.2
wrong 2 "on the axis lr and on --axis lr" lr.toml --axis optimizer.lr=0.1
printf 'base = "tiny"\nset = ["optimizer.lr=1"]\n[[axis]]\nkey = "optimizer.lr"\nvalues = [0.1]\n' >twice.toml
wrong 1 'by set = "optimizer.lr=1" and on the axis lr' twice.toml
wrong 2 "points = 1: points must be a whole number from 2" --base tiny.toml \
  --axis "key = 'optimizer.lr', log = [0.1, 1.0], points = 1"
wrong 1 "no results yet" --base tiny.toml --name none --seeds 1 2 --report
[ ! -e runs/none ] || fail "a report of nothing made a directory"
echo "sweep_cli_test: passed"
