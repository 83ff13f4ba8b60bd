#!/usr/bin/env bash
# normball train, eval and sample as a user has them: resumed runs are byte for byte those that were
# never interrupted, mistakes are named and lose nothing.
set -euo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2" && cd "$2"

. "$scripts/shell_testing.sh"
longest_error=12

make_text 400
"$normball" data prepare text.txt --out shards --bytes >/dev/null 2>&1

cat >gpt.toml <<'END'
[run]
steps = 8
log_every = 1
eval_every = 3
checkpoint_every = 100
[model]
kind = "gpt"
layers = 2
width = 32
heads = 2
context = 32
vocab = 256
[data]
kind = "text"
path = "text.txt"
[train]
batch = 4
micro_batch = 2
[eval]
batches = 2
[optimizer]
lr = 0.01
alpha = 0.1
rho = 10.0
END
cat >cnn.toml <<'END'
[run]
steps = 6
log_every = 1
eval_every = 3
checkpoint_every = 100
[model]
kind = "cnn"
width_factor = 0.0625
[data]
kind = "fashion-mnist"
flip = true
translate = 2
[train]
batch = 50
label_smoothing = 0.2
[eval]
batches = 2
[optimizer]
method = "clipped_scion"
lr = 0.05
alpha = 0.5
rho = 10.0
END

# N steps, stopped, and the rest: the same bytes as all steps at once.
interrupted() {
  local name=$1 config=$2 first=$3 last=$4
  shift 4
  "$normball" train "$config" "$@" --name "$name-whole" >/dev/null 2>&1
  "$normball" train "$config" "$@" --name "$name-parts" --stop-after "$first" >out 2>/dev/null
  grep -q "stopped after step $first of $last" out || fail "--stop-after: $(cat out)"
  "$normball" train "$config" "$@" --name "$name-parts" --resume >out 2>/dev/null
  grep -q "finished after step $last" out || fail "--resume: $(cat out)"
  same_runs "$name-whole" "$name-parts" "$last"
}
interrupted text gpt.toml 5 8
interrupted shards gpt.toml 3 8 --set data.kind=shards --set data.path=shards
interrupted images cnn.toml 2 6
interrupted sphere cnn.toml 2 6 --set model.init=sphere
cmp -s runs/images-whole/checkpoints/step-6/model.safetensors \
       runs/sphere-whole/checkpoints/step-6/model.safetensors && fail "model.init changed nothing"
for method in adamw sgd muon; do
  interrupted "$method" gpt.toml 4 8 --set optimizer.method=$method --set optimizer.grad_clip=1
done
# Stepsizes that find themselves: what they have seen is in the checkpoint, and what they chose in the metrics.
for stepsize in adagrad distance_aware "momo(f_star=1)" auto_clipped; do
  interrupted "$stepsize" gpt.toml 4 8 --set optimizer.method=unconstrained_scion --set "optimizer.stepsize=$stepsize"
  [ "$(grep -c '"step_length": [0-9.e-]*[1-9]' "runs/$stepsize-whole/metrics.jsonl")" = 8 ] || fail "$stepsize: no step_length"
done
[ "$(grep -c '"rho": [0-9.]*[1-9]' runs/auto_clipped-whole/metrics.jsonl)" = 7 ] || fail "auto_clipped: no rho"
"$normball" train gpt.toml --name automatic --set optimizer.rho=auto --dry-run >out
grep -q '^optimizer  unconstrained_clipped_scion, lr .*, rho "auto"' out || fail "--dry-run: $(cat out)"
"$normball" train gpt.toml --name automatic --set optimizer.method=scion --set optimizer.stepsize=adagrad --dry-run >out
grep -q '^optimizer  scion, .*stepsize "adagrad"' out || fail "--dry-run: $(cat out)"
# Line searches: their numbers are in the checkpoint, and every step counts its evaluations; whatever the model draws or
# averages by the way is as without a search.
for search in backtracking smoothness; do
  interrupted "$search" gpt.toml 4 8 --set optimizer.line_search=$search
  interrupted "$search-cnn" cnn.toml 2 6 --set optimizer.line_search=$search
  for run in "$search" "$search-cnn"; do
    steps=$(grep -c '"dual_norm"' "runs/$run-whole/metrics.jsonl")
    [ "$(grep -c '"evaluations": [1-9]' "runs/$run-whole/metrics.jsonl")" -ge $((steps / 2)) ] || fail "$run: no evaluations"
  done
done
expect_error "'$normball' train gpt.toml --name free --set optimizer.line_search=smoothness \
              --set 'train.average=schedule_free(0.9)'" "optimizer.line_search has nothing to compare with"
expect_error "'$normball' train gpt.toml --name both --set optimizer.method=scion --set optimizer.stepsize=adagrad \
              --set optimizer.line_search=smoothness" "optimizer.line_search"
expect_error "'$normball' train gpt.toml --name above --set optimizer.method=unconstrained_scion \
              --set 'optimizer.stepsize=momo(f_star=100)'" "below f_star = 100"

# A run of an earlier version, whose configuration lacks a key, goes on; so does one named by a path with a slash.
"$normball" train gpt.toml --name older --stop-after 5 >/dev/null 2>&1
sed -i '/^rope_base/d; /^tta/d' runs/older/config.toml
"$normball" train gpt.toml --name older --resume runs/older/checkpoints/step-5/ >/dev/null 2>&1
same_runs text-whole older 8

# SIGTERM ends the step, saves, and the run goes on as if nothing had happened.
"$normball" train gpt.toml --name term-whole --set run.steps=60 >/dev/null 2>&1
for _ in $(seq 10); do  # on a busy machine it may come after the last step
  rm -rf runs/term
  "$normball" train gpt.toml --name term --set run.steps=60 >out 2>/dev/null &
  for _ in $(seq 6000); do
    grep -q '"step": 3,' runs/term/metrics.jsonl 2>/dev/null && break
    sleep 0.01
  done
  kill -TERM $! 2>/dev/null || true
  wait $! || fail "SIGTERM: exit code $?"
  grep -q "stopped after step" out && break
done
grep -q "stopped after step" out || fail "SIGTERM came too late to test anything"
"$normball" train gpt.toml --name term --set run.steps=60 --resume >/dev/null 2>&1
same_runs term-whole term 60

# Before the first step it ends the process at once, and there is no run.
"$normball" train gpt.toml --name early --set run.steps=100000 >out 2>/dev/null &
sleep 0.05
kill -TERM $!
code=0
wait $! || code=$?
ended_early $code early

# What was recorded is what an evaluation of the checkpoint gives.
recorded=$(grep val_loss runs/images-whole/metrics.jsonl | tail -1 | sed -E 's/.*"val_loss": ([0-9.e-]+).*/\1/')
"$normball" eval runs/images-whole/checkpoints/step-6 >out
grep -q "$(printf 'validation loss %.4f' "$recorded")" out || fail "eval: $(cat out), recorded $recorded"
"$normball" sample runs/text-whole --length 20 --seed 3 >one
"$normball" sample runs/text-whole --length 20 --seed 3 >two
cmp one two

# Two windows: of four, two begin alike and go on differently, so that their loss stays above 2 ln 2 / 128.
"$normball" train gpt.toml --name overfit --overfit-batch --set run.steps=100 --set optimizer.lr=0.03 \
  --set train.batch=2 --set train.micro_batch=1 \
  --set norm.hidden_radius=5 --set norm.embedding_radius=50 >/dev/null 2>&1
last_loss=$(grep '"loss"' runs/overfit/metrics.jsonl | tail -1 | sed -E 's/.*"loss": ([0-9.e-]+).*/\1/')
awk -v loss="$last_loss" 'BEGIN { exit !(loss < 0.01) }' || fail "--overfit-batch: loss $last_loss"

# All of the validation data, with no number of batches; the same whatever their size.
for size in 1 7 64; do
  "$normball" eval runs/text-whole --set eval.batches=0 --set eval.batch=$size
done >out
[ "$(sort -u out | wc -l)" = 1 ] || fail "eval.batches=0 depends on the batch: $(cat out)"
grep -q " $(( ($(wc -c <text.txt) - ($(wc -c <text.txt) * 9 / 10) - 1) / 32 * 32 )) tokens" out || fail "not all of it: $(cat out)"
# Validation data of its own is used, and all of the text is trained on.
head -c 3000 text.txt | tr a-z b-za >other.txt
"$normball" train gpt.toml --name own --set data.validation=other.txt >/dev/null 2>&1
cmp -s <(grep val_loss runs/own/metrics.jsonl) <(grep val_loss runs/text-whole/metrics.jsonl) && fail "data.validation changed nothing"
"$normball" eval runs/own >one
"$normball" eval runs/own --set data.validation=text.txt >two
cmp -s one two && fail "eval --set data.validation changed nothing"
# Texts by GPT-2's tokens: the vocabulary may be elsewhere now; where it is not, it is said.
mkdir bpe && printf '#version: 0.2\nh e\nl l\n\304\240 t\n' >bpe/vocab.bpe
"$normball" train gpt.toml --name pairs --set data.bpe=bpe --set model.vocab=260 --set model.init=sphere >/dev/null 2>err || fail "data.bpe: $(cat err)"
"$normball" eval runs/pairs >one
cp -r bpe elsewhere
"$normball" eval runs/pairs --set data.bpe=elsewhere >two 2>err || fail "eval --set data.bpe: $(cat err)"
cmp one two
expect_error "'$normball' eval runs/pairs --set data.bpe=nowhere" "nowhere"
expect_error "'$normball' sample runs/pairs --set data.bpe=elsewhere" "has its vocabulary in runs/pairs/tokenizer"
# sample takes the run's [sample], changed by --set or its own options.
[ "$("$normball" sample runs/text-whole --set sample.length=5 --set sample.temperature=0 | wc -c)" = 6 ] || fail "sample.length"
[ "$("$normball" sample runs/text-whole --length 5 --prompt '"a' --temperature 0 | wc -c)" = 8 ] || fail "--length, --prompt"
# Where there is no validation data, it is said; --resume leaves the configuration alone.
"$normball" train gpt.toml --name silent --set data.validation_fraction=0 --dry-run >out
grep -q "warning: there is no validation data" out || fail "nothing said about validation: $(cat out)"
"$normball" train gpt.toml --name silent --set data.kind=shards --set "data.path=shards/train*.bin" --set run.steps=1 >/dev/null 2>err
grep -q "warning: there is no validation data" err || fail "nothing said about validation: $(cat err)"
"$normball" train --resume gpt.toml --name silent2 --dry-run >out || fail "--resume took the configuration"
"$normball" train --resume=auto gpt.toml --name silent2 --dry-run >out || fail "--resume=auto"
"$normball" train --resume runs/text-parts/checkpoints/step-8 gpt.toml --name silent2 --dry-run >out || fail "--resume DIR CONFIG"
# What is shown is what steps.
for method in gd lars clipped_spectral s3cg; do
  "$normball" train cnn.toml --name shown --set optimizer.method=$method --dry-run \
    $([ $method = s3cg ] && echo --set optimizer.beta=7) >$method.txt 2>/dev/null
done
grep -q "^head .* euclidean  1 " gd.txt && grep -q "^head .* euclidean  1 " lars.txt || fail "gd or lars: $(cat gd.txt lars.txt)"
grep -q "^head .* spectral(unit)  1 " clipped_spectral.txt || fail "clipped_spectral: $(cat clipped_spectral.txt)"
grep -q "^head .* sign  *7 " s3cg.txt || fail "s3cg: $(cat s3cg.txt)"

# Images that cannot be decoded are counted, in training and in an evaluation; what cannot be learned from is said.
make_pictures
for part in train/ant train/bee val/bee; do
  mkdir -p "photos/$part" && cp a.jpg "photos/$part/1.jpg" && cp b.png "photos/$part/2.png"
done
head -c 300 a.jpg >photos/val/bee/3.jpg
photos="--set model.kind=mlp --set model.hidden=[4] --set data.kind=folder --set data.size=16"
sed -e '/^flip\|^translate\|^width_factor/d' -e 's/^batch = 50/batch = 2/' -e 's/^batches = 2/batches = 0/' cnn.toml >photos.toml
"$normball" train photos.toml $photos --set data.path=photos --set data.bad_images=skip --name photos >/dev/null 2>err || fail "photos: $(cat err)"
grep -q "passed over: 1; the first: .*photos/val/bee/3.jpg" err || fail "train does not say what it left out: $(cat err)"
"$normball" eval runs/photos >out 2>err || fail "eval: $(cat err)"
grep -q "2 images: " out && grep -q "warning: .* passed over: 1; the first: .*photos/val/bee/3.jpg" err ||
  fail "eval does not say what it left out: $(cat out err)"
mkdir -p ants/train/ant && cp a.jpg ants/train/ant/1.jpg && cp a.jpg ants/train/ant/2.jpg
"$normball" train photos.toml $photos --set data.path=ants --name ants --dry-run >out
grep -q "warning: ants has no validation images (in val, validation or test)" out || fail "no validation: $(cat out)"
grep -q "warning: all images of ants are of one class" out || fail "one class: $(cat out)"
grep -qE "[0-9.]+[kMG]? floating-point operations a step" out || fail "--dry-run: $(cat out)"

# Mistakes.
ls -R runs >before
expect_error "'$normball' train photos.toml $photos --set data.path=ants --name new --set train.batch=3" "train.batch = 3" \
             "the 2 training images of ants" "train.micro_batch"
expect_error "'$normball' train cnn.toml --name new --set train.batch=70000" "train.batch = 70000" "60000 training images"
expect_error "'$normball' train cnn.toml --name new --set train.batch=140000 --set train.micro_batch=70000" "train.micro_batch = 70000"
expect_error "'$normball' train gpt.toml --name new --set data.validation_fraction=0.999999" "model.context = 32" \
             "a smaller data.validation_fraction"
expect_error "'$normball' train gpt.toml --name new --set 'norm.route=[{pattern=\"head\", radius=-2.0}]'" \
             "norm.route: the radius of 'head' must be in" "got -2"
expect_error "'$normball' train gpt.toml --name new --set run.steps=99999999999999999999" "run.steps must be in [0, 1e+12], got 99999999999999999999"
expect_error "'$normball' train gpt.toml --name new --set run.seed=9223372036854775808" "run.seed must be an integer below 2^63, got 9223372036854775808"
expect_error "'$normball' train gpt.toml --name new --set optimizer.lr=1e31" "got 1e+31"
expect_error "'$normball' train gpt.toml --name new --set run.dir=/dev/null" "/dev/null" "choose another one"
expect_error "RANK=1 WORLD_SIZE=2 '$normball' train gpt.toml --name new" "RANK = 1 and WORLD_SIZE = 2" "LOCAL_WORLD_SIZE is not set" \
             "MASTER_ADDR, the machine of rank 0, is not set"
expect_error "'$normball' train gpt.tml" "gpt.tml"
expect_error "'$normball' train gpt.toml --set optimizer.lrr=1" "optimizer" "did you mean 'lr'"
expect_error "'$normball' train gpt.toml --set optimizer.lr=-1" "lr" "-1"
expect_error "'$normball' train gpt.toml --name new --set data.path=missing.txt" "missing.txt"
expect_error "'$normball' train gpt.toml --name new --set data.kind=cifar10" "cifar10"
expect_error "'$normball' train gpt.toml --name new --set model.vocab=100" "model.vocab = 100"
expect_error "'$normball' train gpt.toml --name text-whole" "text-whole" "--resume" "--name"
expect_error "'$normball' train gpt.toml --name text-whole --resume --set model.width=64" \
             "model.width: 32 before, 64 now"
expect_error "'$normball' train gpt.toml --name new --resume runs/images-whole/checkpoints/step-6" \
             "another configuration"
expect_error "'$normball' train cnn.toml --name new --set run.dir=/proc/no" "/proc/no"
expect_error "'$normball' sample runs/images-whole" "gpt"
expect_error "'$normball' eval runs" "config.toml"
expect_error "'$normball' eval runs/text-whole --set model.heads=2" "model.heads=2" "the model is trained"
expect_error "'$normball' sample runs/text-whole --set model.rope_base=100" "the model is trained" "sample.length"
expect_error "'$normball' sample runs/text-whole --set eval.batches=1" "sample.length"
expect_error "'$normball' sample runs/text-whole --seed -1" "--seed" "must be an integer in [0, 1000000000000000000]" "got -1"
expect_error "'$normball' sample runs/text-whole --seed 1e18" "--seed" "must be an integer" "got 1e18"
expect_error "'$normball' sample runs/text-whole --length 5 --set sample.length=7" "--length 5 and --set sample.length=7"
expect_error "'$normball' sample runs/text-whole --top-k 5 --set sample.top_k=7" "--top-k 5 and --set sample.top_k=7"
expect_error "'$normball' sample runs/text-whole --prompt a --set sample.prompt=b" "--prompt and --set sample.prompt=b"
expect_error "'$normball' eval runs/text-whole --set eval.batches=1 --set eval.batches=2" "eval.batches is given twice"
expect_error "'$normball' train gpt.toml --name new --set run.name=other" "--name new and --set run.name=other"
expect_error "'$normball' train gpt.toml --resume --set run.resume=never" "--resume and --set run.resume=never"
expect_error "'$normball' train gpt.toml --overfit-batch --set train.overfit_batch=false" "--overfit-batch and --set"
expect_error "'$normball' train gpt.toml --name new --set run.steps=5 --set run.steps=6" \
             "--set run.steps=6" "run.steps is given twice, first as --set run.steps=5"
expect_error "'$normball' train gpt.toml --name new --stop-after 1.5" "--stop-after" "must be an integer in [1, 1000000000000]"
expect_error "'$normball' sample runs/text-whole --temperature -1" "sample.temperature" "got -1"
expect_error "'$normball' train gpt.toml --name new --stop-after 0" "--stop-after" "in [1, 1000000000000]"
expect_error "'$normball' train gpt.toml --name new --set data.validation=other.txt --set model.context=3000" \
             "validation data has 3000 tokens" "data.validation"
expect_error "'$normball' train gpt.toml --name new --set optimizer.eps=1e-3" "optimizer.eps has no effect"
expect_error "'$normball' train cnn.toml --name new --set data.kind=cifar10" "data_batch_1.bin" "data.path" "docs/data.md"
expect_error "'$normball' train shakespeare-cpu-unconstrained-scion --name new" "data/tinyshakespeare.txt" "data.path" "docs/data.md"
expect_error "'$normball' train --resume" "config"
expect_error "'$normball' train gpt.toml --name new --set run.seed=1 run.steps=2" "run.steps=2"
ls -R runs | cmp - before || fail "a mistake changed something"

# A step that is not finite stops the run where it is.
expect_error "'$normball' train cnn.toml --name diverges --set model.kind=mlp --set optimizer.method=gd --set optimizer.lr=1e30" \
             "not finite" "still those of step" "run.nonfinite=skip"
"$normball" train cnn.toml --name skips --set model.kind=mlp --set optimizer.method=gd --set optimizer.lr=1e30 \
  --set run.nonfinite=skip >/dev/null 2>err && fail "a run that diverged ended well"
grep -q "skipped: " err || fail "nothing was skipped: $(cat err)"
"$normball" report runs/text-whole runs/text-parts --out report.html >/dev/null
grep -q "text-parts" report.html || fail "the report lacks a run"
echo "train, eval and sample: all as expected"
