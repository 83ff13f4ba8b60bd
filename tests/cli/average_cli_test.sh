#!/usr/bin/env bash
# train.average: resumed runs are byte for byte those that were never interrupted, the checkpoint's model is what was
# evaluated, and what is not supported is named.
set -euo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2" && cd "$2"

. "$scripts/shell_testing.sh"
longest_error=12

make_text 400
cat >gpt.toml <<'END'
[run]
steps = 12
log_every = 1
eval_every = 4
checkpoint_every = 100
[model]
kind = "gpt"
layers = 1
width = 32
heads = 2
context = 32
vocab = 256
[data]
kind = "text"
path = "text.txt"
[train]
batch = 4
[eval]
batches = 2
[optimizer]
lr = 0.02
alpha = 0.3
rho = 10.0
END

last() { grep "\"$2\"" "runs/$1/metrics.jsonl" | tail -1 | sed -E "s/.*\"$2\": ([0-9.e-]+).*/\1/"; }

"$normball" train gpt.toml --name plain >/dev/null 2>&1
grep -q iterate_val runs/plain/metrics.jsonl && fail "an iterate beside no average"
cut=1
for average in 'ema(0.8)' 'tail(0.5)' schedule-free soda uniform; do
  name=${average%%(*}
  "$normball" train gpt.toml --name "$name" --set train.average="$average" >/dev/null 2>err || fail "$average: $(cat err)"
  # In two parts, once before and once within the tail.
  cut=$((cut + 2))
  "$normball" train gpt.toml --name "$name-parts" --set train.average="$average" --stop-after $cut >/dev/null 2>&1
  "$normball" train gpt.toml --name "$name-parts" --set train.average="$average" --resume >/dev/null 2>&1
  same_runs "$name" "$name-parts" 12
  # The model of the checkpoint is what was evaluated.
  "$normball" eval "runs/$name/checkpoints/step-12" >out
  grep -q "$(printf 'validation loss %.4f' "$(last "$name" val_loss)")" out ||
    fail "$average: eval $(cat out), recorded $(last "$name" val_loss)"
  case $name in
    ema | tail | uniform)  # the steps are those without it, and what is evaluated is something else
      [ "$(last "$name" iterate_val_loss)" = "$(last plain val_loss)" ] || fail "$average changed the steps"
      cmp <(without_times "runs/$name/metrics.jsonl" | grep '"loss"') \
          <(without_times runs/plain/metrics.jsonl | grep '"loss"') || fail "$average changed the training loss" ;;
    schedule-free)
      [ "$(last "$name" iterate_val_loss)" != "$(last "$name" val_loss)" ] || fail "$average is no average" ;;
    soda)
      grep -q iterate_val "runs/$name/metrics.jsonl" && fail "soda evaluates its iterates" ;;
  esac
  cmp -s "runs/$name/checkpoints/step-12/model.safetensors" runs/plain/checkpoints/step-12/model.safetensors &&
    fail "$average changed nothing"
done

"$normball" report runs/ema runs/plain --html page.html >/dev/null 2>&1 || "$normball" report runs/ema runs/plain >/dev/null
"$normball" train gpt.toml --dry-run --name dry --set train.average='ema(0.9)' 2>&1 | grep -q 'ema(decay=0.9)' ||
  fail "--dry-run does not show the average"

expect_error '"$normball" train gpt.toml --name bad --set train.average=emma' "did you mean 'ema'"
grep -q 'schedule-free' err && fail "two spellings of one average: $(cat err)"
expect_error '"$normball" train gpt.toml --name bad --set "train.average=ema(2)"' 'decay must be'
expect_error '"$normball" train gpt.toml --name ema --resume --set "train.average=ema(0.7)"' 'train.average'
expect_error '"$normball" train gpt.toml --name tail --resume --set run.steps=20 --set "train.average=tail(0.5)"' \
  '12 steps in the checkpoint' 'keep run.steps'
[ ! -e runs/bad ] || fail "a refused run left a directory"
