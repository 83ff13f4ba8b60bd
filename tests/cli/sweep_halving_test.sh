#!/usr/bin/env bash
# Early stopping of sweeps by successive halving: sweep_halving_test.sh NORMBALL WORK_DIRECTORY PYTHON
set -euo pipefail
normball=$(realpath "$1")
python=$3
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2"
mkdir -p "$2"
cd "$2"
cp "$scripts/tiny_gpt.toml" .
. "$scripts/shell_testing.sh"

yes 'The quick brown fox jumps over the lazy dog.' | head -c 20000 >text.txt || true
# Schedules that depend on the length of the run, so that a rung is no shorter run.
cat >base.toml <<'T'
extends = "tiny_gpt"
[run]
steps = 12
log_every = 1
eval_every = 3
checkpoint_every = 2
[optimizer]
method = "unconstrained_clipped_scion"
alpha_schedule = "power(1, exponent=0.5)"
rho_schedule = "linear(2, steps=20)"
lr = 0.05
[schedule]
kind = "linear"
T
axis() { printf '[[axis]]\nkey = "optimizer.lr"\nvalues = [%s]\n' "$1"; }
{
  printf 'base = "base"\nseeds = [3, 4]\nmetric = "val_loss"\n'
  axis '0.002, 0.01, 0.05, 0.25, 0.5'
} >full.toml
{
  printf 'base = "base"\nseeds = [3, 4]\nmetric = "val_loss"\nhalving = { first = 3, factor = 2 }\n'
  axis '0.002, 0.01, 0.05, 0.25, 0.5'
} >halved.toml

"$normball" sweep full.toml >full.txt 2>&1
"$normball" sweep halved.toml >out.txt 2>err.txt
contains err.txt "10 runs to step 3"
contains err.txt "step 3 of 12: 3 of 5 points go on"
contains err.txt "step 6 of 12: 2 of 3 points go on"
contains out.txt "stopped at step 3 of 12: 5th of 5 by val_loss ("
contains out.txt "the best 3 go on"
contains out.txt "stopped at step 6 of 12: 3rd of 3 by val_loss ("
contains out.txt "3 points were stopped early by val_loss"
contains out.txt "budget: 10 runs of 12 steps, 6 of them stopped early: 72 steps instead of 120"
contains runs/halved/sweep.html "stopped at step 3 of 12: 4th of 5"
[ "$(grep -c ',stopped,"stopped at step' runs/halved/results.csv)" -eq 6 ] || fail "results.csv: $(cat runs/halved/results.csv)"
if grep -q stopped runs/full/results.jsonl; then fail "early stopping without being asked"; fi

# Who goes on, from the runs of the sweep that stopped nobody.
"$python" - >expected.txt <<'P'
import json
def losses(lr, step):
    values = []
    for seed in (3, 4):
        with open(f"runs/full/lr-{lr}_seed-{seed}/metrics.jsonl") as file:
            values += [line["val_loss"] for line in map(json.loads, file) if "val_loss" in line and line["step"] == step]
    assert len(values) == 2
    return sum(values) / 2
alive = ["0.002", "0.01", "0.05", "0.25", "0.5"]
for step in (3, 6):
    alive = sorted(alive, key=lambda lr: losses(lr, step))[:(len(alive) + 1) // 2]
for lr in sorted(alive):
    print(f"lr-{lr}_seed-3\nlr-{lr}_seed-4")
P
finished() { grep '"status":"finished"' "$1/results.jsonl" | sed -E 's/.*"cell":"([^"]*)".*/\1/' | sort; }
cmp <(finished runs/halved) <(sort expected.txt) || fail "others went on: $(finished runs/halved) instead of $(cat expected.txt)"
# They are the runs that nothing ever stopped, to the bit.
for cell in $(cat expected.txt); do
  same_metrics "runs/full/$cell" "runs/halved/$cell"
  for file in model optimizer; do
    cmp "runs/full/$cell/checkpoints/step-12/$file.safetensors" \
        "runs/halved/$cell/checkpoints/step-12/$file.safetensors" || fail "$cell has another $file"
  done
done
best=$(head -1 expected.txt)
lr=${best#lr-}
"$normball" train base.toml --name alone --set optimizer.lr="${lr%_*}" --set run.seed=3 --set run.threads=1 >/dev/null 2>&1
same_metrics runs/alone "runs/halved/$best"

# Again, nothing is run; the report alone shows the same.
results runs/halved >before.txt
"$normball" sweep halved.toml >again.txt 2>err.txt
if grep -q "runs to step" err.txt; then fail "runs were repeated: $(cat err.txt)"; fi
cmp out.txt again.txt || fail "the same command says something else"
cmp before.txt <(results runs/halved) || fail "the same command has other results"
"$normball" sweep halved.toml --report >again.txt 2>err.txt
cmp <(tail -n +2 out.txt) again.txt || fail "the report says something else"

# Killed at 20 random moments and started again, it ends with the same results.
kill_at_random "$normball" sweep halved.toml --into killed
"$normball" sweep halved.toml --into killed >/dev/null 2>&1
cmp before.txt <(results killed) || fail "the results of the killed sweep differ"
for cell in runs/halved/*/; do same_metrics "$cell" "killed/$(basename "$cell")"; done

# A value that is added later: the rungs are decided anew with all that is there. Whoever belongs to the best now is
# finished, and whoever was finished stays so.
{
  head -4 halved.toml
  axis '0.002, 0.01, 0.05, 0.25, 0.5, 0.025'
} >more.toml
"$normball" sweep more.toml --into afresh >/dev/null 2>&1
"$normball" sweep more.toml --into runs/halved >out.txt 2>err.txt
contains err.txt "2 runs to step 3"
contains err.txt "step 3 of 12: 3 of 6 points go on"
for cell in $(finished afresh); do
  finished runs/halved | grep -qx "$cell" || fail "$cell did not go on when a value was added"
  same_metrics "afresh/$cell" "runs/halved/$cell"
done
for cell in $(cat expected.txt); do
  finished runs/halved | grep -qx "$cell" || fail "$cell is not finished any more"
done

# Without early stopping what was stopped goes on to the end.
"$normball" sweep full.toml --into killed >out.txt 2>err.txt
cmp <(results runs/full) <(results killed) || fail "other results after early stopping was turned off"
for cell in runs/full/*/; do same_metrics "$cell" "killed/$(basename "$cell")"; done

# A point of which a seed diverged before the rung does not go on.
cp -r "$scripts/earlier_runs/images" "$scripts/earlier_runs/images.toml" .
"$normball" sweep --base images.toml --set run.steps=8 --set run.eval_every=2 --set optimizer.method=gd --metric val_loss \
  --axis optimizer.lr=0.01,1e30,0.02 --halving 4 --name diverges >out.txt 2>err.txt || fail "$(cat err.txt)"
contains out.txt "1 cell diverged"
contains err.txt "step 4 of 8: 1 of 3 points goes on"

# What cannot be compared is said before anything runs.
wrong() { # CODE TEXT ARGUMENTS...
  local code=0 expected=$1 text=$2
  shift 2
  "$normball" sweep "$@" --into refused >out.txt 2>err.txt || code=$?
  [ "$code" -eq "$expected" ] || fail "exit code $code, not $expected, of: sweep $*: $(cat err.txt)"
  contains err.txt "$text"
  [ ! -e refused ] || fail "a run was started by: sweep $*"
}
lrs="optimizer.lr=0.1,0.2"
wrong 1 "needs to be told what it compares" --base base.toml --axis $lrs --halving 3
wrong 1 "first = 4 must be a multiple of run.eval_every = 3" --base base.toml --axis $lrs --halving 4 --metric val_loss
wrong 1 "first = 12 must be below run.steps = 12" --base base.toml --axis $lrs --halving 12 --metric loss
wrong 1 "needs run.steps" --base base.toml --axis $lrs --halving 3 --metric loss --set run.steps=0 --set run.epochs=1
wrong 1 "compares runs of one length" --base base.toml --axis run.steps=6,12 --halving 3 --metric loss
wrong 2 "factor must be" --base base.toml --axis $lrs --halving 3,1 --metric loss
printf 'base = "base"\nhalving = 3\n' >bad.toml
wrong 1 "bad.toml:2: halving must be a table" bad.toml --seeds 0 1
printf 'base = "base"\nhalving = { first = 3, fctor = 2 }\n' >bad.toml
wrong 1 "did you mean 'factor'" bad.toml --seeds 0 1
echo "sweep_halving_test: passed"
