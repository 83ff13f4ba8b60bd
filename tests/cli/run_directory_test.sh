#!/usr/bin/env bash
# A run directory is the truth: it is complete, says what was run, is read from any folder, and
# nothing that goes wrong costs what is in it.
set -euo pipefail
normball=$1
source=$3
scripts=$source/tests/cli
rm -rf "$2" && mkdir -p "$2" && cd "$2"
here=$PWD

. "$scripts/shell_testing.sh"
# All that a directory holds, except the lock.
digest() { (cd "$1" && find . -type f ! -name .lock -exec sha256sum {} + | sort -k2); }
key() { sed -n "s/^$2 = //p" "runs/$1/config.toml"; }
train() { "$normball" train "$@" >out 2>err || fail "train $*: $(cat out err)"; }

make_text 200
cp "$scripts/tiny_gpt.toml" .
cat >tiny.toml <<'END'
extends = "tiny_gpt"
[run]
steps = 8
log_every = 1
eval_every = 4
checkpoint_every = 2
keep_last = 2
keep_best = false
[eval]
batches = 2
[optimizer]
lr = 0.02
alpha = 0.1
rho = 10.0
END
train tiny.toml --name whole

# A run that is finished has nothing left to do, and still has its result; one that never began is begun, and that is said.
result=$(sed -n 's/^finished .*: \(validation loss .*\)/\1/p' out)
train tiny.toml --name whole --resume
grep -qF "nothing is left to do: the run finished after step 8 of 8" out && grep -qF ": $result" out || fail "finished before: $(cat out)"
train tiny.toml --name begun --resume --stop-after 1
grep -qx "runs/begun holds no run yet: starting a new one" err || fail "--resume without a run: $(cat err)"
# What a dry run would be refused for is a note.
digest runs/whole >before
train tiny.toml --name whole --dry-run
grep -q "^note .*runs/whole already holds a run; --resume continues it" out && grep -q "^embedding " out || fail "--dry-run: $(cat out)"
digest runs/whole | cmp - before || fail "a dry run changed the run"

# Checkpoints of which none can be read: refused, nothing touched.
train tiny.toml --name lost --stop-after 4
for file in runs/lost/checkpoints/step-*/model.safetensors; do truncate -s -1 "$file"; done
digest runs/lost >before
expect_error "'$normball' train tiny.toml --name lost --resume" "no checkpoint" "step-2/model.safetensors" \
             "step-4/model.safetensors" "Nothing was changed" "--name"
digest runs/lost | cmp - before || fail "a refused resume changed the run"
rm runs/lost/checkpoints/step-*/state.json && mkdir runs/lost/checkpoints/step-{2,4}/state.json
expect_error "'$normball' train tiny.toml --name lost --resume" "no checkpoint"
expect_error "'$normball' train tiny.toml --name lost" "already holds a run"

# Only the newest is damaged: the one before it goes on, and the damaged one stays, out of the way.
train tiny.toml --name hurt --stop-after 6
truncate -s -1 runs/hurt/checkpoints/step-6/optimizer.safetensors
sha256sum <runs/hurt/checkpoints/step-6/model.safetensors >before
train tiny.toml --name hurt --resume
grep -q "skipped runs/hurt/checkpoints/step-6" err || fail "damage is not named: $(cat err)"
sha256sum <runs/hurt/checkpoints/damaged-step-6/model.safetensors | cmp - before
same_runs whole hurt 8
[ "$(ls runs/hurt/checkpoints)" = "$(printf '%s\n' damaged-step-6 step-6 step-8)" ] ||
  fail "kept: $(ls runs/hurt/checkpoints)"

# Going on under another name: a run like any other, with the whole curve, that can itself go on.
train tiny.toml --name first --stop-after 4
digest runs/first >before
train tiny.toml --name second --resume runs/first/checkpoints/step-4 --stop-after 1
[ "$(key second resume)" = "\"$here/runs/first/checkpoints/step-4\"" ] || fail "the origin is not recorded"
train tiny.toml --name second --resume
[ "$(key second resume)" = "\"$here/runs/first/checkpoints/step-4\"" ] || fail "the origin is forgotten"
same_runs whole second 8
"$normball" eval runs/second >/dev/null
"$normball" sample runs/second --length 5 >/dev/null
digest runs/first | cmp - before || fail "the run gone on from was changed"
# A run in the way is not taken over.
expect_error "'$normball' train tiny.toml --name whole --resume runs/first/checkpoints/step-4" "already holds a run"
train tiny.toml --name third --resume runs/first
same_runs whole third 8

# TensorBoard's files come along, in an order in which the new one counts last.
for run in second third; do
  for file in runs/first/events.out.tfevents.*; do
    cmp "$file" "runs/$run/${file##*/}" || fail "$run lacks ${file##*/}"
  done
  [ "$(ls runs/$run/events.out.tfevents.* | tail -1)" != "runs/$run/$(ls runs/first | grep tfevents | tail -1)" ] ||
    fail "the copied events of $run count last: $(ls runs/$run)"
done

# Metrics that are damaged in the middle are refused before anything is written.
train tiny.toml --name marred --stop-after 4
sed -i '2s/.*/{"step": 1, "loss"/' runs/marred/metrics.jsonl
digest runs/marred >before
expect_error "'$normball' train tiny.toml --name marred --resume --set eval.batches=3" "metrics.jsonl:2" \
             'repair it, or put {"step": 1} in its place'
digest runs/marred | cmp - before || fail "a refused resume changed the run"
expect_error "'$normball' train tiny.toml --name marred2 --resume runs/marred" "marred/metrics.jsonl:2"
[ ! -e runs/marred2 ] || fail "a refused resume made a directory"

sed -i '2s/.*/{"step": 1}/' runs/marred/metrics.jsonl
train tiny.toml --name marred --resume
cmp <(without_times runs/marred/metrics.jsonl | sed 2d) <(without_times runs/whole/metrics.jsonl | sed 2d) ||
  fail "the advice for a damaged line spoilt others"

# Metrics that lost lines, at the end or in between, are refused as well; without any the run goes on.
for lines in '$d' '3d' '1,4d'; do
  rm -rf runs/marred && cp -r runs/first runs/marred
  sed -i "$lines" runs/marred/metrics.jsonl
  digest runs/marred >before
  expect_error "'$normball' train tiny.toml --name marred --resume" "runs/marred/metrics.jsonl" "lines were lost" \
               "up to step 4" "Nothing was changed"
  digest runs/marred | cmp - before || fail "a refused resume changed the run"
done
rm runs/marred/metrics.jsonl
train tiny.toml --name marred --resume
grep -q "metrics.jsonl is missing" err || fail "that the curves are gone is not said: $(cat err)"

# A directory that is renamed while it is trained in keeps its run; one that is removed ends it.
"$normball" train tiny.toml --name before --set run.steps=100000 >out 2>err & pid=$!
until ls runs/before/checkpoints/step-* >/dev/null 2>&1; do kill -0 $pid || fail "ended: $(cat err)"; sleep 0.05; done
mv runs/before runs/after
until grep -q "runs/before is now $here/runs/after: going on there" err; do kill -0 $pid || fail "ended: $(cat err)"; sleep 0.05; done
kill -TERM $pid
wait $pid || fail "a renamed run did not end well: $(cat err)"
[ ! -e runs/before ] || fail "a run was split in two: $(find runs/before)"
last=$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' runs/after/metrics.jsonl | tail -1)
[ -f "runs/after/checkpoints/step-$last/state.json" ] || fail "step $last has metrics and no checkpoint: $(ls runs/after/checkpoints)"
grep -q "runs/after" out || fail "the new place is not named: $(cat out)"
train tiny.toml --name after --resume --set run.steps=$((last + 2))
"$normball" train tiny.toml --name before --set run.steps=100000 >out 2>err & pid=$!
until ls runs/before/checkpoints/step-* >/dev/null 2>&1; do kill -0 $pid || fail "ended: $(cat err)"; sleep 0.05; done
kill -STOP $pid && rm -r runs/before && kill -CONT $pid
if wait $pid; then fail "a removed run ended well"; fi
grep -q "was removed" err || fail "a removed directory: $(cat err)"
[ ! -e runs/before ] || fail "a removed run came back"

# So does the loss of a file that it needs, also where only a checkpoint that was being written outlives an rm -r.
for file in config.toml metrics.jsonl; do
  for end in goes-on stopped; do
    rm -rf runs/bare
    "$normball" train tiny.toml --name bare --set run.steps=100000 $([ $end = goes-on ] || echo --set run.checkpoint_every=0) >out 2>err & pid=$!
    until grep -q '"step": 3,' runs/bare/metrics.jsonl 2>/dev/null; do kill -0 $pid || fail "ended: $(cat err)"; sleep 0.05; done
    rm runs/bare/$file
    [ $end = goes-on ] || kill -TERM $pid
    if wait $pid; then fail "a run without its $file ended well ($end): $(cat out)"; fi
    grep -q "runs/bare/$file was removed or replaced while the run was trained" err || fail "$file: $(cat err)"
    [ ! -e runs/bare/$file ] || fail "$file came back"
    last=$(ls runs/bare/checkpoints | sort -V | tail -1)
    grep -q -- "--resume continues from runs/bare/checkpoints/$last" err || fail "$file: not saved: $(cat err)"
  done
done
train tiny.toml --name bare --resume --set run.steps=100000 --stop-after 2
rm -rf runs/bare
"$normball" train tiny.toml --name bare --set run.steps=100000 >out 2>err & pid=$!
until ls runs/bare/checkpoints/step-* >/dev/null 2>&1; do kill -0 $pid || fail "ended: $(cat err)"; sleep 0.05; done
kill -STOP $pid && rm -r runs/bare/[a-z]* && kill -CONT $pid
if wait $pid; then fail "a run without any file ended well"; fi
grep -qE "config.toml and runs/bare/metrics.jsonl( and .*)? were removed" err || fail "an emptied directory: $(cat err)"

# The best checkpoint is damaged: only those that can be read are named instead.
cp -r runs/whole runs/worn
best=$("$normball" eval runs/worn | sed -n 's/^step \([0-9]*\),.*/\1/p')
other=$(ls runs/worn/checkpoints | grep -vx "step-$best")
truncate -s -1 "runs/worn/checkpoints/step-$best/model.safetensors"
expect_error "'$normball' eval runs/worn" "best checkpoint cannot be read" "Other checkpoints of the run can be read" "$other"
truncate -s -1 "runs/worn/checkpoints/$other/model.safetensors"
expect_error "'$normball' eval runs/worn" "No other checkpoint of the run can be read"

# config.toml is bound to its checkpoints, also where the shapes of the tensors would not tell.
for change in "heads = 2/heads = 4" "rope_base = .*/rope_base = 99.0" "context = 16/context = 8"; do
  rm -rf runs/edited && cp -r runs/whole runs/edited
  sed -i "s/^$change/" runs/edited/config.toml
  key=${change%% *}
  cmp -s runs/whole/config.toml runs/edited/config.toml && fail "no $key in config.toml"
  was="model.$key: $(key whole "$key") in the checkpoint, $(key edited "$key") in the configuration"
  expect_error "'$normball' eval runs/edited" "$was" "runs/edited/config.toml"
  expect_error "'$normball' eval runs/edited/checkpoints/step-8" "$was"
  expect_error "'$normball' sample runs/edited --length 5" "$was"
  expect_error "'$normball' train tiny.toml --name edited --resume --set run.steps=9 --set model.$key=$(key edited "$key")" "$was"
done

# Names are plain names, wherever they are given.
for name in a/b .. . /tmp/x; do
  expect_error "'$normball' train tiny.toml --name $name" "run.name" "plain name"
  expect_error "'$normball' train tiny.toml --set run.name=$name" "run.name" "plain name"
done

# Other data of the same length, another kind of run, fewer steps than taken: refused.
train tiny.toml --name bound --stop-after 4
digest runs/bound >before
sed 's/fox/cat/' text.txt >cats.txt
expect_error "'$normball' train tiny.toml --name bound --resume --set data.path=cats.txt" "other data" "data.path"
expect_error "'$normball' train tiny.toml --name bound --resume --overfit-batch" \
             "train.overfit_batch: false before, true now"
expect_error "'$normball' train tiny.toml --name bound --resume --set run.steps=3" "taken 4 steps" "the 3 requested"
digest runs/bound | cmp - before || fail "a refused resume changed the run"
train tiny.toml --name single --overfit-batch --stop-after 4
expect_error "'$normball' train tiny.toml --name single --resume" "train.overfit_batch: true before, false now"
# The same text elsewhere is the same data; only the end, for validation, may differ.
cp text.txt copy.txt && train tiny.toml --name bound --resume --set data.path=copy.txt
same_runs whole bound 8
[ "$(key bound path)" = "\"$here/copy.txt\"" ] || fail "config.toml has another data.path: $(key bound path)"
head -c -7 text.txt >ends.txt && printf 'changed' >>ends.txt
train tiny.toml --name bound --resume --set data.path=ends.txt --set run.steps=10
grep -q "validation data has changed" err || fail "other validation data: $(cat err)"
[ "$(key bound steps)" = 10 ] || fail "config.toml says $(key bound steps) steps where 10 were run"

# From any folder, and moved with its data or alone.
"$normball" eval runs/whole >expected
(cd / && "$normball" eval "$here/runs/whole") | cmp - expected
"$normball" sample runs/whole --length 20 --seed 3 >sampled
mkdir -p moved/project/runs && mv text.txt moved/project/ && cp -r runs/whole moved/project/runs/renamed
mkdir old && mv moved/project old/ && (cd / && "$normball" eval "$here/old/project/runs/renamed") | cmp - expected
rm old/project/text.txt
(cd / && "$normball" sample "$here/old/project/runs/renamed" --length 20 --seed 3) | cmp - sampled
expect_error "'$normball' eval runs/whole" "text.txt" "--set data.path="
"$normball" eval runs/whole --set data.path=copy.txt | cmp - expected
"$normball" eval runs/whole --set data.path=cats.txt >out 2>err
grep -q "has changed since the run" err || fail "eval on other data says nothing"
cp copy.txt text.txt

# Steps that are not finite leave gaps and marks, and an end that says so.
cp -r "$source/tests/cli/earlier_runs/images" "$source/tests/cli/earlier_runs/images.toml" .
gd="images.toml --set run.steps=8 --set optimizer.method=gd --set optimizer.lr=1e30"
expect_error "'$normball' train $gd --name stops" "not finite"
tail -1 runs/stops/metrics.jsonl | grep -q '"loss": "NaN", "lr": .*"nonfinite": .*"stopped": true' ||
  fail "the stop is not recorded: $(tail -1 runs/stops/metrics.jsonl)"
expect_error "'$normball' train $gd --name skips --set run.nonfinite=skip --set run.log_every=100" "diverged" "lr 1e+30"
grep -qE "finished after step 8 of 8 .*[1-7] skipped as not finite: validation loss not finite" out ||
  fail "the end is not honest: $(cat out)"
grep -q '"loss": "NaN", "lr": 1e+30, "nonfinite": "loss", "skipped": true' runs/skips/metrics.jsonl ||
  fail "no mark of a skipped step: $(cat runs/skips/metrics.jsonl)"
grep -q '"loss": 0.0' runs/skips/metrics.jsonl && fail "a skipped step has a loss of 0"
"$normball" report runs/skips runs/stops --out report.html >/dev/null
grep -qE '"skipped":[1-7]' report.html || fail "the report has no mark of skipped steps"

# Divergence behind finite numbers is named; a good run hears nothing.
expect_error "'$normball' train tiny.toml --name huge --set optimizer.lr=1e30 --set run.steps=20" \
             "diverged" "the largest weight is" "too large" "lr 1e+30"
tail -1 runs/huge/metrics.jsonl | grep -q '"diverged": "the training loss was' || fail "divergence is not recorded"
"$normball" report runs/huge | grep "huge: diverged: the training loss was" >report.txt || fail "the report does not say it diverged"
grep -q "finished after step 20" out || fail "a diverged run is not saved: $(cat out)"
cp -r runs/huge runs/huge-again
expect_error "'$normball' train tiny.toml --name huge-again --set optimizer.lr=1e30 --set run.steps=20 --resume" \
             "diverged" "the training loss was"
expect_error "'$normball' train tiny.toml --name huge-short --set optimizer.lr=1e30 --set run.steps=3" \
             "diverged" "at the first step and" "the largest weight is" "lr 1e+30"
grep -qE "validation loss [0-9.e+]{1,12}\$" out || fail "a huge loss in many digits: $(cat out)"
train tiny.toml --name still --set optimizer.lr=0 --set run.steps=40
grep -q "warning: the training loss was" err || fail "nothing was learned, and nothing said: $(cat err)"
train tiny.toml --name up --set model.init=sphere --set optimizer.lr=1000000 --set run.steps=3
grep -q "warning: the training loss was .* at the last; .* is too large" err || fail "a loss far up, and nothing said: $(cat err)"
train tiny.toml --name short --set run.steps=2
grep -q "warning" err && fail "a warning of a short run: $(cat err)"
train tiny.toml --name good --set run.steps=40
grep -q "warning" err && fail "a warning of a good run: $(cat err)"

# Two processes in one directory: the second is refused before it looks at anything.
train tiny.toml --name busy --stop-after 2
(exec 9<>runs/busy/.lock && flock -n 9 && echo locked >flag &&
  for i in $(seq 600); do [ -e done ] && break; sleep 0.1; done) &
holder=$!
for i in $(seq 600); do [ -e flag ] && break; sleep 0.1; done
expect_error "'$normball' train tiny.toml --name busy --resume" "in use"
"$normball" train tiny.toml --name busy --resume --dry-run | grep -q "after step 2" || fail "a dry run needs no lock"
touch done && wait $holder

# Runs of the program as it was before: evaluated and resumed as if written today.
cp -r "$source/tests/cli/earlier_runs" earlier && cd earlier
"$normball" eval runs/images | tee out | grep -q "^step 4, .*accuracy 96.67 %" || fail "not the best: $(cat out)"
"$normball" eval runs/text | tee out | grep -q "^step 4, .*loss 5.613[56]" || fail "another result: $(cat out)"
(cd / && "$normball" eval "$here/earlier/runs/text") | cmp - out
"$normball" sample runs/text --length 3 >/dev/null
losses() { sed -nE 's/.*"loss": ([0-9.]+), .*/\1/p' "runs/$1/metrics.jsonl"; }
for kind in text images; do
  train $kind.toml --resume --set run.steps=8
  train $kind.toml --name $kind-new --set run.steps=8
  paste <(losses $kind) <(losses $kind-new) |
    awk '{ n += 1; d = $1 - $2; if (d < -1e-3 || d > 1e-3) exit 1 } END { exit n != 8 }' ||
    fail "$kind went on with other losses: $(losses $kind) against $(losses $kind-new)"
  [ "$(key $kind steps)" = 8 ] || fail "config.toml was not brought up to date"
done
[ "$(ls runs/images/checkpoints)" = "$(printf '%s\n' step-6 step-8)" ] || fail "kept: $(ls runs/images/checkpoints)"
echo "run directories: all as expected"
