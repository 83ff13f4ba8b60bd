#!/usr/bin/env bash
# Wrong command lines: exit code 2 for each of them, in every command, with the option, what came and
# what is allowed; nothing is started and nothing written. What depends on files is exit code 1.
#   command_line_test.sh NORMBALL WORK_DIRECTORY
set -uo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 1
cp "$scripts/tiny_gpt.toml" .
. "$scripts/shell_testing.sh"
# expect CODE TEXT ARGUMENTS...
expect() {
  local code=$1 text=$2 status=0
  shift 2
  "$normball" "$@" >out 2>err </dev/null || status=$?
  [ "$status" = "$code" ] || problem "normball $*: exit code $status, expected $code: $(head -c 600 out err)"
  grep -qF -- "$text" err || problem "normball $*: no '$text' in: $(head -c 600 err)"
  LC_ALL=C grep -qE '[0-9]{40}' err && problem "normball $*: endless digits: $(head -c 600 err)"
  [ "$(wc -l <err)" -le 8 ] || problem "normball $*: a long message: $(cat err)"
}
trains=$("$normball" --help | sed -n 's/^  \(train\)  .*/\1/p')
make_text 100
"$normball" data prepare text.txt --out shards >/dev/null 2>&1 || problem "no shards"
mkdir run
printf '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n' >run/metrics.jsonl

# Names that are not known, with the nearest one, at every depth.
expect 2 "unknown command 'reprot'; did you mean 'report'?" reprot
expect 2 "unknown command 'lba'; did you mean 'lab'?" lba --quick config
expect 2 "unknown command 'chekc'; did you mean 'check'?" lab chekc descent
expect 2 "unknown command 'prepre'; did you mean 'prepare'?" data prepre text.txt
expect 2 "unknown option '--shwo'; did you mean '--show'?" config --shwo cifar10-adam
expect 2 "unknown option '--seed'; did you mean '--seeds'?" lab check descent --seed=3
expect 2 "unknown option '--otu'; did you mean '--out'?" data prepare text.txt --otu new
expect 2 "unknown option '--verison'; did you mean '--version'?" --verison
expect 2 "A subcommand is required" data

# A forgotten value does not take the next option for one.
expect 2 "--shape: needs a value, but --no-step follows" bench --shape --no-step
expect 2 "--out: needs a value, but --validation follows; if that is the value, write --out=--validation" \
  data prepare text.txt --out --validation 0.1

# Numbers: not a number, not finite, outside.
for value in nan inf -1 1 x; do expect 2 "--validation" data prepare text.txt --out new --validation $value; done
for value in nan inf 0 x; do expect 2 "--stepsize-factor" lab all --stepsize-factor $value; done
for value in 0 -1 1.5 x 1e9 99999999999999999999; do
  expect 2 "--rounds" bench --rounds $value --no-lmo --no-pass --no-step
  expect 2 "--shard-tokens" data prepare text.txt --out new --shard-tokens $value
done
expect 2 "--threads" bench --threads 100000
expect 2 "--threads" lab all --threads -1
expect 2 "--steps" lab picture --steps 9
expect 2 "--vocabulary" data show shards --vocabulary 70000
for value in -1 1.5 x 99999999999999999999; do
  expect 2 "--seed: must be an integer in [0, " data show photos --augmented new.png --seed $value
done

# Values that are read by more than a number's rule.
expect 2 "a shape is <rows>x<cols>" bench --shape axb
expect 2 "--shape" bench --shape 16x16 16x
expect 2 "did you mean 'exact'" bench --solver exat
expect 2 "did you mean 'sign'" bench --norm sgin
expect 2 "did you mean 'airbench'" bench --model airbnch
expect 2 "GiB are free; take a smaller shape" bench --shape 10000000x10000000
expect 2 "did you mean 'lr'" config --show cifar10-adam --set optimizer.lrr=1
expect 2 "optimizer.lr must be a number, got 'fast'" config --check cifar10-adam --set optimizer.lr=fast
expect 2 "optimizer.lr must be a number" config --check cifar10-adam --set optimizer.lr=
expect 2 "model.hidden must be a list in [ ]" config --check fashion-mnist-unconstrained-clipped-scion --set model.kind=mlp --set "model.hidden=[1,"
expect 2 "optimizer.method begins with a quote" config --check cifar10-adam --set 'optimizer.method="gd'
expect 2 "expected section.key=value" config --check cifar10-adam --set optimizer.lr
expect 2 "set one of run.steps" config --check cifar10-adam --set run.epochs=0
expect 2 "--set run.name=.hid: run.name must be a plain name" config --check cifar10-adam --set run.name=.hid
printf '[run]\nsteps = \n' >broken.toml
expect 1 "broken.toml:2: is not TOML here" config --check broken.toml
printf '[run]\nname = "a/b"\nsteps = 1\n[optimizer]\nmethod = "gd"\n' >named.toml
expect 1 "named.toml: run.name must be a plain name" config --check named.toml
expect 1 "run is a directory; name a TOML file" config --check run
cp broken.toml run/config.toml
expect 1 "such as run/config.toml" config --show run

# Options without effect on what they were given with.
expect 2 "--vocabulary: has no effect on a text" data verify text.txt --vocabulary 300
expect 2 "--vocabulary: has no effect on a text" data show text.txt --vocabulary 300
head -c 16 /dev/zero >empty-idx1-ubyte
printf '\0\0\x08\x01\0\0\0\x04abcd' >four-idx1-ubyte
expect 2 "--bpe: has no effect on an IDX file" data show four-idx1-ubyte --bpe bpe

expect 2 "--shape excludes --no-lmo" bench --no-lmo --shape 16x16
expect 2 "excludes --light" bench --no-step --light
expect 2 "--json excludes --requests" bench --requests --json out.json
expect 2 "run.dir must not be empty" config --check cifar10-adam --set run.dir=

# An empty text is neither a file nor a name; `-` is no file.
expect 2 "must not be empty" data prepare text.txt --out ""
expect 2 "must not be empty" data prepare "" --out new
expect 2 "must not be empty" data show ""
expect 2 "must not be empty" report run --out ""
expect 2 "must not be empty" report ""
expect 2 "must not be empty" config --show ""
expect 2 "must not be empty" config --check ""
expect 2 "must not be empty" lab picture --svg ""
expect 2 "must not be empty" bench --json "" --no-lmo --no-pass --no-step
expect 2 "'-' is not a file" lab check lengths --quick --norm sign --json -
expect 2 "'-' is not a file" report run --out -
[ ! -e - ] || problem "a file named - was written"

# A directory that may not be entered is named as such (root may enter all).
if [ "$(id -u)" != 0 ]; then
  mkdir closed && chmod 000 closed
  expect 1 "closed/" report closed/run
  grep -q "filesystem error" err && problem "the library's own text: $(cat err)"
  chmod 755 closed
fi
# What the disk has or lacks is no fault of the command line.
expect 1 "error while opening for writing" lab check lengths --quick --norm sign --json missing/file.json
expect 1 "missing/page.html" report run --out missing/page.html

# What belongs to a run is nobody's output file, whichever command writes and whichever run it is.
mkdir -p other/checkpoints/step-9
cp run/metrics.jsonl other/ && echo >other/config.toml && echo weights >other/checkpoints/step-9/model.safetensors
cp -r other untouched
for file in metrics.jsonl config.toml .lock checkpoints/step-9/model.safetensors checkpoints/step-9/x.html; do
  expect 2 "is a file of the run" report run --out "other/$file"
  expect 2 "is a file of the run" lab picture --steps 10 --svg "other/$file"
done
diff -r other untouched || problem "a run's files were written to"
"$normball" report other --out other/page.html >out 2>err || problem "a page beside a run's files: $(cat err)"

# Names in messages do not reach the terminal as they are.
expect 1 '\x1b[31mred' report $'\x1b[31mred'
expect 1 "nowhere" report nowhere
expect 1 "No such file" data verify nowhere.txt

if [ -n "$trains" ]; then
  cat >tiny.toml <<'END'
extends = "tiny_gpt"
[run]
steps = 2
threads = 1
[optimizer]
lr = 0.01
alpha = 0.1
rho = 10.0
END
  "$normball" train tiny.toml --name done >/dev/null 2>&1 || problem "no run to begin with"
  ls -R >before
  for name in "" .hid -- -x .. a/b ../x "$(printf 'a\nb')" "$(printf 'a%.0s' $(seq 201))"; do
    expect 2 "" train tiny.toml "--name=$name"
    grep -q "plain name: 1 to 200 bytes, not beginning with '.' or '-'\|required TEXT missing" err ||
      problem "--name=$name: $(cat err)"
    [ -z "$name" ] || expect 2 "plain name" train tiny.toml --set "run.name=$name"
  done
  expect 2 "must not be empty" train tiny.toml --name ""
  expect 2 "--stop-after" train tiny.toml --name new --stop-after 0
  expect 2 "must not be empty" train tiny.toml --name new --resume ""
  expect 2 "must not be empty" train ""
  expect 2 "unknown option '--overfit'; did you mean '--overfit-batch'?" train tiny.toml --overfit
  expect 2 "optimizer.lr must be a number" train tiny.toml --name new --set optimizer.lr=1,5
  expect 2 "--length 0: sample.length must be" sample runs/done --length 0
  expect 2 "--temperature hot: sample.temperature must be a number, got 'hot'" sample runs/done --temperature hot
  expect 2 "--top-k -1: sample.top_k must be" sample runs/done --top-k -1
  expect 2 "--top-k 1.5: sample.top_k must be an integer" sample runs/done --top-k 1.5
  for length in "--length 5" --length=5; do
    expect 2 "--prompt: needs a value, but --length follows" sample runs/done --prompt $length
  done
  expect 2 "--prompt: 1 required WORDS missing" sample runs/done --prompt
  [ -n "$("$normball" sample runs/done --prompt=--length --length 3)" ] || problem "a prompt like an option"
  [ -n "$("$normball" sample runs/done --prompt --not-one --length 3)" ] || problem "a prompt like no option"
  expect 2 "--name: needs a value, but --dry-run follows" train tiny.toml --name --dry-run
  for seed in nan -1 1.5 9223372036854775808 99999999999999999999; do
    expect 2 "--seed" sample runs/done --seed $seed
  done
  expect 2 "--rounds: is an option of \`normball bench\`" bench --rounds 1 train --alone --case cnn
  expect 2 "--peer excludes --alone" bench train --alone --peer x
  expect 2 "--requests" bench train --requests nothing
  expect 2 "data.path=...: has no effect: the tokens of the run are bytes" sample runs/done --set data.path=text.txt
  expect 2 "data.bpe=...: has no effect: the tokens of the run are bytes" sample runs/done --set data.bpe=bpe
  expect 2 "data.bpe=...: has no effect: the tokens of the run are bytes" eval runs/done --set data.bpe=bpe
  expect 2 "the model is trained" eval runs/done --set model.width=32
  expect 2 "did you mean 'exact'" bench train --alone --solver exat
  expect 2 "--case" bench train --alone --case nothing
  for lr in nan inf 0 -1 x; do expect 2 "--lr" demo --lr $lr --into new; done
  expect 2 "must not be empty" demo --into ""
  expect 2 "--seeds" demo --seeds 0 --into new
  expect 1 "is not a run directory" eval nowhere
  expect 1 "nowhere" sample nowhere
  ls -R | cmp -s - before || problem "a wrong command line left something behind: $(ls -R | diff before -)"

  # However often and in whatever form a stepsize is given, it is one run of each method.
  "$normball" demo --lr 0.01 0.010 1e-2 --seeds 1 --steps 2 --into demo >out 2>err || problem "demo: $(cat err)"
  [ "$(ls -d demo/*/ | wc -l)" = 2 ] || problem "demo: runs $(ls demo)"
  grep -q "at 1 of 1 stepsizes (one seed)" out || problem "demo: $(cat out)"
  expect 2 "has taken 2 steps, more than the 1 requested; request at least as many, or name another directory with --into" \
    demo --lr 0.01 --seeds 1 --steps 1 --into demo
  # More steps go on; what fails is named without the words of the process that failed.
  "$normball" demo --lr 0.01 --seeds 1 --steps 3 --into demo >out 2>err || problem "demo goes on: $(cat err)"
  grep -q "last tenth of 3 steps" out || problem "demo goes on: $(cat out)"
  rm demo/scion-lr0.01-seed0/checkpoints/step-*/state.json
  expect 1 "demo/scion-lr0.01-seed0 ended with exit code 1; the end of demo/scion-lr0.01-seed0.log" \
    demo --lr 0.01 --seeds 1 --steps 3 --into demo
  grep -q "/proc/self" err && problem "demo shows its own command: $(cat err)"

  [ -n "$("$normball" sample runs/done --prompt "" --length 3)" ] || problem "an empty prompt is one"
fi
exit "$((failures > 0))"
