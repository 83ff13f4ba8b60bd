#!/usr/bin/env bash
# Nothing fails silently: every subcommand notices that what it prints cannot be written, files that
# options name are written through links and into pipes, terminals get what they can show.
#   cli_output_test.sh NORMBALL WORK_DIRECTORY
set -uo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 1
cp "$scripts/tiny_gpt.toml" .
. "$scripts/shell_testing.sh"
commands() { "$normball" "$@" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\)  .*/\1/p'; }
trains=$(commands | grep -x train)

for i in $(seq 400); do echo "Line $i: the quick brown fox, $((i * 7919 % 1000)) times."; done >text.txt
for part in train val; do  # a PNG of one pixel each
  mkdir -p "images/$part/red"
  base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== \
    >"images/$part/red/1.png"
done
echo '{"lmo": [{"shape": "768x768", "solver": "exact", "seconds": 0.01}], "threads": 1}' >lmo.json
mkdir run
printf '{"step": 1, "loss": 2.0, "seconds": 1}\n{"step": 2, "loss": 1.5, "seconds": 2}\n' >run/metrics.jsonl
"$normball" config --show fashion-mnist-unconstrained-scion >run/config.toml || problem "no configuration"
cat >tiny.toml <<'END'
extends = "tiny_gpt"
[run]
steps = 4
threads = 1
log_every = 1
eval_every = 2
checkpoint_every = 2
[eval]
batches = 2
[optimizer]
lr = 0.01
alpha = 0.1
rho = 10.0
END
[ -z "$trains" ] || "$normball" train tiny.toml --name done >/dev/null 2>&1 || problem "no run to begin with"

# One line for each command, found by the name it begins with.
while read -r line; do calls+=("$line"); done <<'END'
bench --rounds 1 --shape 16x24 --no-pass --no-step
bench ranks --simulate --model gpt2-124m --lmo lmo.json --solver exact --flops 100 --copy 10
bench train --rounds 1 --case cnn --alone
config --list
data pack images --out packed-NEW
data prepare text.txt --out shards-NEW
data show text.txt
data verify text.txt
demo --lr 0.01 --seeds 1 --steps 2 --into demo-NEW
doctor
eval runs/done
experiment list
experiment report gpt-fixed --into experiment-NEW
experiment run gpt-fixed --dry-run
lab
lab all --help
lab check lengths --quick --norm sign
lab picture --steps 20
launch -n 2 train tiny.toml --name launch-NEW
report run
sample runs/done --length 5
sweep --base tiny.toml --seeds 0 1 --into sweep-NEW
train tiny.toml --name train-NEW
tune tiny.toml --budget 1000 --seeds 0 --dry-run
END
calls+=("--help" "--version")
for command in $(commands); do
  for sub in "" $(commands "$command"); do
    [ "$command $sub" = "data " ] || [ "$command $sub" = "experiment " ] && continue  # take a subcommand always
    printf '%s\n' "${calls[@]}" | grep "^$command $sub\|^$command\$" >/dev/null || problem "no call of '$command $sub'"
  done
done

number=0
call() {  # the words of a line, with a number for what must be new
  number=$((number + 1))
  # shellcheck disable=SC2086
  exec "$normball" ${1//NEW/$number}
}
grep -q "was built without" <<<"$("$normball" launch -n 2 train nothing 2>&1)" && ranks="" || ranks=yes
mkfifo pipe
exec 8<>pipe 9>pipe 8<&-
for line in "${calls[@]}"; do
  case "$ranks/$line" in
    /launch*) continue ;;  # built without c10d
  esac
  case "$trains/$line" in
    /demo* | /experiment* | /sweep* | /train* | /tune* | /eval* | /sample* | /bench\ train* | /bench\ ranks*) continue ;;  # built without LibTorch
  esac
  number=$((number + 1))
  (call "$line") >/dev/full 2>err
  code=$?
  [ $code = 1 ] || problem "normball $line >/dev/full: exit code $code"
  grep -q "standard output cannot be written: No space left" err || problem "normball $line >/dev/full: $(cat err)"
  number=$((number + 1))
  # A reader that is gone.
  (call "$line") >&9 2>/dev/null
  code=$?
  [ "$code" != 0 ] || problem "normball $line into a closed pipe: exit code 0"
done
exec 9>&-

# What is printed never ends up in a file that took the place of a closed standard output.
"$normball" report run >&- 2>err
[ $? = 1 ] && grep -q "cannot be written: Bad file descriptor" err || problem "report >&-: $(cat err)"
tail -c 20 run/report.html | grep -q "</html>" || problem "report >&- wrote its table into the page"

# Files that options name: through links, and into what is no regular file.
mkfifo pipe
ln -s target.html link.html
ln -s "$PWD/missing/target" dangling
mkdir directory
echo old >target.html
if [ "$(id -u)" = 0 ]; then mknod full c 1 7 && chmod 666 full; fi
outputs() {  # outputs NAME COMMAND...: the last word is the option
  local what=$1 code
  shift
  echo old >target.html
  "$normball" "$@" link.html >/dev/null 2>err || problem "$what to a link: $(cat err)"
  [ -L link.html ] && [ "$(wc -c <target.html)" -gt 100 ] || problem "$what: the link was not written through"
  cat pipe >from-pipe & local reader=$!
  "$normball" "$@" pipe >/dev/null 2>err || problem "$what to a pipe: $(cat err)"
  wait $reader
  [ -p pipe ] && cmp -s <(wc -l <from-pipe) <(wc -l <target.html) || problem "$what: the pipe did not get the text"
  for bad in directory dangling missing/file; do
    "$normball" "$@" $bad >/dev/null 2>err
    code=$?
    [ $code != 0 ] && grep -q "$bad" err || problem "$what to $bad: exit code $code, $(cat err)"
  done
  [ -d directory ] && [ -L dangling ] || problem "$what replaced what it could not write"
  if [ -c full ]; then
    "$normball" "$@" full >/dev/null 2>err
    code=$?
    [ $code = 1 ] && grep -q "disk full" err || problem "$what to a full device: exit code $code, $(cat err)"
    [ -c full ] || problem "$what: the device became a file"
  fi
}
outputs "report --out" report run --out
outputs "lab --json" lab check lengths --quick --norm sign --json
outputs "lab --html" lab check lengths --quick --norm sign --html
outputs "lab --svg" lab picture --steps 20 --svg
outputs "bench --json" bench --rounds 1 --shape 16x24 --solver muon exact svd --no-pass --no-step --json

# A name that is wrong costs no work and leaves nothing behind.
"$normball" lab check desent --json new.json >/dev/null 2>&1 && problem "a wrong statement passed"
"$normball" lab check lengths --quick --norm sign --json new.json --html missing/page.html >/dev/null 2>&1 &&
  problem "a missing directory passed"
[ ! -e new.json ] || problem "a command that failed left new.json behind"

# Reports of runs that are not all well.
mkdir -p a/demo b/demo empty none
echo '{"step": 1, "loss": 2.0, "val_loss": 1.5}' >a/demo/metrics.jsonl
echo '{"step": 1, "loss": 2.0, "val_loss": 1.25, "val_accuracy": 0.5}' >b/demo/metrics.jsonl
: >empty/metrics.jsonl
for place in a/demo b/demo empty; do cp run/config.toml $place; done
"$normball" report a/demo b/demo empty --out page.html >out 2>err || problem "report with an empty run: $(cat err)"
for text in a/demo b/demo "50.00 %" "1.5000" "1.2500" "empty: no step is logged yet" "2nd half: of a run's evaluations"; do
  grep -qF -- "$text" out || problem "no '$text' in the report: $(cat out)"
done
"$normball" report a/demo none nowhere --out page2.html >out 2>err
code=$?
[ $code = 1 ] && grep -q "left out: .*none, nowhere have no metrics.jsonl; name a run's directory" err && [ "$(wc -l <err)" = 1 ] &&
  grep -q demo out && [ -s page2.html ] || problem "report of a directory that is no run: exit code $code, $(cat out err)"
# What a pattern brings along is one sentence.
"$normball" report /etc/* --out page4.html >out 2>err && problem "report of no run succeeded"
[ "$(wc -l <err)" = 1 ] && grep -q " and [0-9]* more have no metrics.jsonl" err || problem "report of no run: $(cat err)"
grep -q "2nd half: of a run's evaluations" out && problem "a table of nothing"
"$normball" report none --out page3.html >out 2>err
code=$?
[ $code = 1 ] && [ ! -e page3.html ] && ! grep -q "left out" err || problem "report of nothing: exit code $code, $(cat out err)"

# Nothing is wider than a terminal that is not too narrow. Elsewhere tables have all their width, but for the lists of
# `config`, which wrap and lose nothing.
if command -v script >/dev/null; then
  for line in "config --keys" lab "report a/demo b/demo --out page.html" "--help" "bench --help" "lab picture --steps 20"; do
    TERM=xterm script -qec "stty cols 70; '$normball' $line" /dev/null </dev/null >out 2>&1
    # But for sentences: what a picture says of its curves, remarks on runs.
    wide=$(sed "s/\r//; s/$(printf '\033')\[[0-9]*m//g" out | LC_ALL=C.UTF-8 grep -E '^.{71,}' | grep -v "γ\|: \[\|^Usage" | head -1)
    [ -s out ] && [ -z "$wide" ] || problem "normball $line is wider than the terminal: $wide"
  done
fi
if [ -n "$trains" ]; then  # it is not in a program without LibTorch
  "$normball" experiment list >out
  LC_ALL=C.UTF-8 grep -qE '^.{120,}' out || problem "experiment list in a file is cut"
fi
"$normball" config --keys >out
tr -s ' \n' ' ' <out | grep -qF "0: all cores. Resuming is bit-exact only with the same number" || problem "config --keys in a file is cut"

if [ -n "$trains" ]; then
  # Losing the terminal or the reader saves and ends; the run goes on afterwards.
  await() { for _ in $(seq 6000); do grep -q '"step": 3,' "runs/$1/metrics.jsonl" 2>/dev/null && return; sleep 0.01; done; }
  for signal in HUP TERM; do
    "$normball" train tiny.toml --name "$signal" --set run.steps=100000 --set run.checkpoint_every=100000 >out 2>/dev/null &
    await $signal
    kill -$signal $!
    wait $!
    code=$?
    step=$(sed -n 's/stopped after step \([0-9]*\) of.*/\1/p' out)
    [ $code = 0 ] && [ -d "runs/$signal/checkpoints/step-$step" ] || problem "SIG$signal: exit code $code, $(cat out)"
  done
  "$normball" train tiny.toml --name pipe --set run.steps=100000 --set run.checkpoint_every=100000 2>&1 | head -3 >/dev/null
  code=${PIPESTATUS[0]}
  [ "$code" = 141 ] && [ -n "$(ls runs/pipe/checkpoints)" ] || problem "a closed pipe: exit code $code"
  (trap '' HUP; exec "$normball" train tiny.toml --name nohup --set run.steps=300 >out 2>/dev/null) &
  await nohup
  kill -HUP $!
  wait $! && grep -q "finished after step 300" out || problem "SIGHUP under nohup: $(cat out)"

  # The last line has the last validation; nothing but text reaches a terminal that knows no more.
  if command -v script >/dev/null; then
    TERM=dumb script -qec "'$normball' train tiny.toml --name dumb" /dev/null </dev/null >out 2>&1
    grep -q "$(printf '\033')" out && problem "an escape sequence for a dumb terminal"
    TERM=xterm script -qec "'$normball' train tiny.toml --name smart" /dev/null </dev/null >out 2>&1
    last=$(sed -n 's/.*"val_loss": \([0-9.]*\).*/\1/p' runs/smart/metrics.jsonl | tail -1)
    tr '\r' '\n' <out | grep "4/4" | tail -1 | grep -qF "val loss $(printf %.4f "$last")" ||
      problem "the last line lacks the last validation $last: $(cat out)"
    # An untrained model writes any bytes.
    "$normball" train tiny.toml --name bytes --set run.steps=1 --set optimizer.lr=0 >/dev/null 2>&1
    TERM=xterm script -qec "'$normball' sample runs/bytes --length 400 --temperature 5" /dev/null </dev/null >out 2>&1
    LC_ALL=C grep -q "$(printf '[\001-\010\013-\014\016-\037]')" out && problem "control characters reach the terminal"
    "$normball" sample runs/bytes --length 400 --temperature 5 >raw
    LC_ALL=C grep -q "$(printf '[\001-\010\013-\014\016-\037]')" raw || problem "a file does not get the bytes as they are"
  fi
fi
exit "$((failures > 0))"
