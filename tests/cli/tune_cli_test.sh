#!/usr/bin/env bash
# `normball tune` as a user has it: tune_cli_test.sh NORMBALL WORK_DIRECTORY
set -euo pipefail
normball=$(realpath "$1")
scripts=$(realpath "$(dirname "$0")")
. "$scripts/shell_testing.sh"
rm -rf "$2"
mkdir -p "$2"
cd "$2"
cp "$scripts/tiny_gpt.toml" .

make_text 400
cat >tiny.toml <<'T'
extends = "tiny_gpt"
[run]
steps = 60
log_every = 10
[eval]
batches = 2
[optimizer]
method = "unconstrained_clipped_scion"
rho = 1.0
lr = 0.02
T

"$normball" tune tiny.toml --budget 1000 --dry-run >out.txt
contains out.txt "lr and rho by at most 29 runs of 34 steps, 16.4 times a run of 60, judged by loss (tail)"
[ ! -e runs ] || fail "a dry run wrote something"
"$normball" tune tiny.toml --dry-run >out.txt  # short runs may cost more than four times the whole one, as docs/stepsizes.md says
contains out.txt "at most 29 runs of 20 steps, 9.67 times a run of 60"
"$normball" tune tiny.toml --set run.steps=1 --budget 100 --dry-run >out.txt
contains out.txt "runs of 1 step, 29 times a run of 1,"

# The whole search: at most its budget, a table, curves, a line to copy, and a configuration that trains.
"$normball" tune tiny.toml --budget 20x >out.txt 2>err.txt || fail "$(cat out.txt err.txt)"
contains out.txt "times a run of 60"
contains out.txt "best"
line=$(grep -E '^--set optimizer.lr=[0-9.e+-]+ --set optimizer.rho=[0-9.e+-]+$' out.txt) || fail "no line to copy: $(cat out.txt)"
for file in results.jsonl results.csv result.toml lr.svg; do
  [ -s "runs/tiny-tune/$file" ] || fail "no $file"
done
spent=$(sed -nE 's/^- spent: .* ([0-9]+) steps in all.*/\1/p' out.txt)
[ "$spent" -gt 0 ] && [ "$spent" -le 1200 ] || fail "spent '$spent' steps, allowed were 1200"
counted=$(sed -E 's/.*"steps":([0-9]+).*/\1/' runs/tiny-tune/results.jsonl | awk '{ n += $1 } END { print n }')
[ "$spent" -eq "$counted" ] || fail "says $spent steps, the runs have $counted"
lr=$(sed -E 's/--set optimizer.lr=([^ ]*) .*/\1/' <<<"$line")
grep -Eq "^lr = $lr( |\$)" runs/tiny-tune/result.toml || fail "result.toml has another lr: $(cat runs/tiny-tune/result.toml)"
# shellcheck disable=SC2086
"$normball" train tiny.toml --name copied $line >/dev/null 2>&1 || fail "the line cannot be copied: $line"
here=$PWD
(cd / && "$normball" train "$here/runs/tiny-tune/result.toml" --dry-run >/dev/null 2>&1) || fail "result.toml depends on the folder"
grep -q '^name = "tiny-tuned"' runs/tiny-tune/result.toml || fail "result.toml would train into the run of its configuration"
"$normball" train runs/tiny-tune/result.toml --name found >/dev/null 2>&1 || fail "result.toml does not train"
same_runs copied found 60
printf 'extends = "runs/tiny-tune/result"\n[run]\nsteps = 3\n' >extended.toml
"$normball" train extended.toml --name extended >/dev/null 2>&1 || fail "result.toml cannot be extended"

# What was best among the first runs is the smallest of their losses: recomputed from the runs themselves.
python=$(command -v python3)
"$python" - runs/tiny-tune out.txt <<'P' || fail "the best is not the best"
import csv, json, pathlib, re, sys
directory, out = pathlib.Path(sys.argv[1]), open(sys.argv[2]).read()
points = {}
for row in csv.DictReader(open(directory / "results.csv")):
    losses = [json.loads(line) for line in open(directory / row["cell"] / "metrics.jsonl")]
    losses = [(line["step"], line["loss"]) for line in losses if "loss" in line]
    last = losses[-1][0]
    tail = [loss for step, loss in losses if step > 0.75 * last]
    if row["status"] == "finished":
        assert abs(float(row["loss_tail"]) - sum(tail) / len(tail)) < 1e-9, row
        points.setdefault((float(row["rho"]), float(row["lr"])), []).append(sum(tail) / len(tail))
repeated = {key: sum(v) / len(v) for key, v in points.items() if len(v) == 3}
assert repeated, "nothing was repeated"
rho, lr = min(repeated, key=repeated.get)
said = re.search(r"^--set optimizer.lr=(\S+) --set optimizer.rho=(\S+)$", out, re.MULTILINE)
assert (float(said[2]), float(said[1])) == (rho, lr), (rho, lr, out)
P

# Again: nothing is run. An interrupted search continues to the same end.
cp runs/tiny-tune/results.jsonl before.jsonl
"$normball" tune tiny.toml --budget 20x >again.txt 2>err.txt
cmp out.txt again.txt || fail "another result from the same runs"
cmp before.jsonl runs/tiny-tune/results.jsonl || fail "results changed without a run"
grep -q "run, \|runs, " err.txt && grep -q " left" err.txt && fail "runs were started: $(cat err.txt)"
"$normball" tune tiny.toml --budget 20x --into stopped >stopped.txt 2>err.txt &
search=$!
for _ in $(seq 600); do [ -s stopped/results.jsonl ] && break; sleep 0.1; done
kill -TERM $search
code=0
wait $search || code=$?
case $code in
  1) contains err.txt "the same command continues" ;;
  143) ;;  # the signal came between two stages, where no run is trained
  *) fail "exit code $code of a search that was stopped: $(cat err.txt)" ;;
esac
"$normball" tune tiny.toml --budget 20x --into stopped >stopped.txt 2>err.txt
contains err.txt "there already"
for log in stopped/*.log; do  # of all starts of a run
  grep -q "^step 1/" "$log" || fail "$log lost its beginning: $(cat "$log")"
done
cmp <(sed 's/stopped/runs\/tiny-tune/g' stopped.txt) out.txt || fail "a search that was interrupted ends otherwise: $(diff stopped.txt out.txt)"

# One seed, no rho, a metric of its own; and what diverges is ended early.
"$normball" tune tiny.toml --set optimizer.method=adamw --seeds 3 --metric val_loss --budget 500 --into adamw >out.txt 2>err.txt
contains out.txt "lr by at most 12 runs of 41 steps"
contains out.txt "nothing is known of chance"
grep -Eq '^--set optimizer.lr=[0-9.e+-]+$' out.txt || fail "no lr: $(cat out.txt)"
"$normball" tune tiny.toml --set optimizer.method=gd --set optimizer.lr=1e6 --seeds 0 --budget 500 --into high >out.txt 2>err.txt
contains out.txt "points diverged"
contains out.txt "diverged"
code=0
"$normball" tune tiny.toml --set optimizer.method=gd --set optimizer.lr=1e25 --seeds 0 --budget 500 --into none >out.txt 2>err.txt || code=$?
[ "$code" -eq 1 ] || fail "exit code $code where all diverged"
contains err.txt "every run diverged, at all lr from"

# Without a rho the search begins with every step clipped; constrained methods have lr up to 1.
sed '/^rho/d' tiny.toml >free.toml
"$normball" tune free.toml --seeds 0 --budget 600 >out.txt 2>err.txt || fail "$(cat out.txt err.txt)"
contains err.txt "rho 1e-20"
"$normball" tune tiny.toml --set optimizer.method=clipped_scion --set optimizer.lr=0.5 --seeds 0 --budget 600 --into ball >out.txt 2>err.txt
grep -Eq "lr ([2-9]|1[0-9.])" err.txt && fail "lr above 1 in the ball: $(cat err.txt)"

# Wrong ways to ask.
wrong() { # CODE TEXT ARGUMENTS...
  local code=0 expected=$1 text=$2
  shift 2
  "$normball" tune "$@" >out.txt 2>err.txt || code=$?
  [ "$code" -eq "$expected" ] || fail "exit code $code, not $expected, of: tune $*: $(cat err.txt)"
  contains err.txt "$text"
}
wrong 2 "config"
wrong 2 "unknown file or preset 'tyny'" tyny
wrong 2 "there is no lr to tune: optimizer.method is cg" tiny.toml --set optimizer.method=cg
wrong 2 "there is no lr to tune" tiny.toml --set optimizer.method=adaptive_sd --set optimizer.l0=1 --set optimizer.l1=1
wrong 2 "must be a number of steps such as 2000" tiny.toml --budget much
wrong 2 "must be a number of steps such as 2000" tiny.toml --budget -3
wrong 2 "must be a number of steps such as 2000" tiny.toml --budget 0x
wrong 2 "which say nothing: give" tiny.toml --budget 100
wrong 2 "the search begins at optimizer.lr, which is 0" tiny.toml --set optimizer.lr=0
wrong 2 "there is no lr to tune: it counts only where" tiny.toml --set optimizer.method=unconstrained_scion --set optimizer.stepsize=distance_aware --dry-run
wrong 2 "is recorded beside an average; train.average is none" tiny.toml --metric iterate_val_loss
wrong 2 "is recorded every run.gap_every steps, which is 0" tiny.toml --metric full_loss
wrong 2 "says nothing of how good a run is" tiny.toml --metric eta
touch a_file
wrong 1 "a_file is no directory" tiny.toml --into a_file --dry-run
# --dry-run makes the checks of the search that come before its first run.
wrong 1 "creating the directory /proc/x" tiny.toml --into /proc/x --dry-run
wrong 1 "a_file" tiny.toml --into a_file/x --dry-run
wrong 1 "another configuration" tiny.toml --budget 20x --set model.width=32 --dry-run
mkdir -p damaged
printf 'no JSON\n\n{}\n' >damaged/results.jsonl
wrong 1 "damaged/results.jsonl:1" tiny.toml --into damaged --dry-run
wrong 2 "which leaves no range" tiny.toml --set optimizer.method=clipped_scion --set optimizer.lr=1 --set schedule.kind=cosine \
  --set schedule.end=1 --dry-run
wrong 2 "a seed is given twice" tiny.toml --seeds 1 1
wrong 2 "unknown metric" tiny.toml --metric speed
wrong 2 "is for images; model.kind gpt has" tiny.toml --metric val_accuracy
wrong 2 "run.seed is set by the search for each run; use --seeds" tiny.toml --set run.seed=3
wrong 2 "unknown key" tiny.toml --set optimizer.lrr=3
wrong 1 "missing.txt" tiny.toml --set data.path=missing.txt
wrong 1 "is the directory of a run" tiny.toml --into runs/found
wrong 1 "another configuration" tiny.toml --budget 20x --set model.width=32
[ ! -e runs/missing-tune ] || fail "a directory of nothing"
echo "tune_cli_test: passed"
