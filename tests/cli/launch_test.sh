#!/usr/bin/env bash
# normball launch: local ranks that train together, stop together, and are started again together.
set -euo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
rm -rf "$2" && mkdir -p "$2" && cd "$2"

. "$scripts/shell_testing.sh"
longest_error=20

for i in $(seq 400); do echo "Line $i: the quick brown fox, $((i * 7919 % 1000)) times."; done >text.txt
{
  cat "$scripts/tiny_gpt.toml"
  cat <<'TOML'
[run]
steps = 40
log_every = 1
eval_every = 10
checkpoint_every = 10
[eval]
batches = 4
[optimizer]
lr = 0.01
alpha = 0.1
rho = 10.0
TOML
} >tiny.toml

# wait_for FILE TEXT: at most a minute.
wait_for() {
  for _ in $(seq 6000); do
    grep -q -- "$2" "$1" 2>/dev/null && return
    sleep 0.01
  done
  fail "no '$2' in $1"
}
# The process of a rank that a launcher started.
rank_process() {
  local process
  for process in $(pgrep -P "$1"); do
    tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "RANK=$2" && echo "$process"
  done
  return 0
}

"$normball" launch -n 2 train tiny.toml --name whole >out 2>err || fail "launch: $(cat err)"
grep -q "finished after step 40 of 40 .*on 2 ranks" out || fail "launch: $(cat out)"
[ "$(wc -l <runs/whole/metrics.jsonl)" = "$(grep -c '"ranks": 2' runs/whole/metrics.jsonl)" ] ||
  fail "a line of metrics does not say how many ranks"
grep -qE '"exposed_per_second": (0\.[0-9]*[1-9]|[0-9.]+e-)' runs/whole/metrics.jsonl || fail "no time of waiting for ranks"
grep -q "^rank 1" err && fail "rank 1 has something to say: $(cat err)"

# At a port, and one rank alone.
port=$(python3 -c "import socket; s = socket.socket(socket.AF_INET6); s.bind(('::', 0)); print(s.getsockname()[1])")
"$normball" launch -n 2 --port $port train tiny.toml --name port >out 2>err || fail "--port: $(cat err)"
same_runs whole port 40
"$normball" launch -n 1 train tiny.toml --name one >out 2>err || fail "-n 1: $(cat err)"
"$normball" train tiny.toml --name alone >/dev/null 2>&1
cmp runs/one/checkpoints/step-40/model.safetensors runs/alone/checkpoints/step-40/model.safetensors

# Signals to the launcher, and to a rank: all stop with a checkpoint, and go on to the bit.
interrupted() {
  local name=$1 signal=$2 target=$3 launcher process
  for _ in $(seq 10); do  # on a busy machine it may come after the last step
    rm -rf "runs/$name"
    "$normball" launch -n 2 train tiny.toml --name "$name" --set run.steps=200 >out 2>err &
    launcher=$!
    wait_for "runs/$name/metrics.jsonl" '"step": 3,'
    process=$launcher
    [ "$target" = launcher ] || process=$(rank_process $launcher "$target")
    kill -"$signal" "$process" 2>/dev/null || true
    wait $launcher || fail "$signal to $target: exit code $?: $(cat err)"
    grep -q "stopped after step" out && return
  done
  fail "$signal to $target: $(cat out)"
}
"$normball" launch -n 2 train tiny.toml --name long --set run.steps=200 >/dev/null 2>&1
interrupted term TERM launcher
interrupted hup HUP launcher
interrupted rank TERM 1
for name in term hup rank; do
  "$normball" launch -n 2 train tiny.toml --name $name --set run.steps=200 --resume >/dev/null 2>err ||
    fail "--resume: $(cat err)"
  same_runs long $name 200
done

# Before the first step a signal ends all at once, by itself.
"$normball" launch -n 2 train tiny.toml --name early --set run.steps=100000 >out 2>err &
sleep 0.1
kill -TERM $!
code=0
wait $! || code=$?
ended_early $code early

# A rank that is killed: the other names it, in time; a restart goes on by itself, to the bit.
"$normball" launch -n 2 --timeout 15 train tiny.toml --name killed --set run.steps=200 >out 2>err &
launcher=$!
wait_for runs/killed/metrics.jsonl '"step": 23,'
kill -KILL "$(rank_process $launcher 1)"
began=$SECONDS
code=0
wait $launcher || code=$?
[ $code = 1 ] || fail "a killed rank: exit code $code: $(cat err)"
[ $((SECONDS - began)) -le 50 ] || fail "a killed rank: $((SECONDS - began)) s"
grep -q "normball: \[ranks\] rank 1: was ended by signal 9" err || fail "a killed rank: $(cat err)"
"$normball" launch -n 2 --restarts 2 train tiny.toml --name killed --set run.steps=200 --resume >out 2>err &
launcher=$!
wait_for err '^step 42/'
kill -KILL "$(rank_process $launcher 0)"
wait $launcher || fail "--restarts: exit code $?: $(cat err)"
grep -qE "going on from .*runs/killed/checkpoints/step-[0-9]+, restart 1 of 2" err || fail "--restarts: $(cat err)"
grep -q "finished after step 200" out || fail "--restarts: $(cat out)"
same_runs long killed 200

# One that hangs is given up.
"$normball" launch -n 2 --timeout 10 train tiny.toml --name hangs --set run.steps=4000 >out 2>err &
launcher=$!
wait_for runs/hangs/metrics.jsonl '"step": 3,'
kill -STOP "$(rank_process $launcher 1)"
code=0
wait $launcher || code=$?
[ $code = 1 ] || fail "a rank that hangs: exit code $code: $(cat err)"
grep -q "rank 1 ended or does not answer, while rank 0 was at " err || fail "a rank that hangs: $(cat err)"

# A slow one is waited for, and changes nothing.
"$normball" launch -n 2 --timeout 30 train tiny.toml --name slow --set run.steps=200 >out 2>err &
launcher=$!
wait_for runs/slow/metrics.jsonl '"step": 3,'
slow=$(rank_process $launcher 1)
kill -STOP "$slow"
sleep 1
kill -CONT "$slow"
wait $launcher || fail "a slow rank: exit code $?: $(cat err)"
same_runs long slow 200

# Ranks with another data set or another configuration: refused by both, in words, and no run is begun.
# differ NAME TEXT SETTING: rank 1 has this setting, too.
differ() {
  local rank pids=() code
  for rank in 0 1; do
    local extra=()
    [ $rank = 0 ] || extra=(--set "$3")
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 NORMBALL_STORE=$PWD/store-$1 NORMBALL_TIMEOUT=60 \
      "$normball" train tiny.toml --name "$1" "${extra[@]}" >out$rank 2>err$rank &
    pids+=($!)
  done
  for rank in 0 1; do
    code=0
    wait "${pids[$rank]}" || code=$?
    [ $code = 1 ] || fail "$1: rank $rank ended with code $code: $(cat err$rank)"
    grep -qF "rank 1: $2" err$rank || fail "$1: no 'rank 1: $2' in: $(cat err$rank)"
  done
  [ ! -e "runs/$1/checkpoints" ] || fail "$1: a checkpoint was written"
}
sed 's/Line 7:/Line 8:/' text.txt >other.txt
differ data "another training data than rank 0" data.path=other.txt
differ configuration "another configuration than rank 0" optimizer.rho=11

# Mistakes.
launch="'$normball' launch"
expect_error "$launch" "launch starts \`train\`"
expect_error "$launch -n 2 eval runs/whole" "launch starts \`train\`" "'eval'"
expect_error "$launch -n 0 train tiny.toml" "integer in [1, 4096]"
expect_error "$launch -n 2 train tiny.toml --name whole" "already holds a run"
expect_error "$launch -n 2 --restarts 3 train nowhere.toml" "nowhere.toml" "not started again: no checkpoint was written" \
             "normball: all ranks failed with exit code 1"
[ "$(grep -c "nowhere.toml" err)" = 1 ] || fail "a common error more than once: $(cat err)"
grep -q "restart 1\|last checkpoint" err && fail "no checkpoint, and started again: $(cat err)"
expect_error "$launch -n 5 train tiny.toml --name few" "train.batch = 4" "5 ranks"
expect_error "$launch -n 2 --restarts 1 train tiny.toml --resume runs/whole" "--resume names runs/whole"
# What fails in the same way again is not tried again, once there is nothing new to go on from.
cp -r "$scripts/earlier_runs/images" "$scripts/earlier_runs/images.toml" .
nan="train images.toml --set run.steps=8 --set optimizer.method=gd --set optimizer.lr=1e30"
expect_error "$launch -n 2 --restarts 3 $nan --name nan --set run.checkpoint_every=1" "not finite in step 2" \
             "going on from runs/nan/checkpoints/step-1, restart 1 of 3" "not started again: no checkpoint was written"
grep -q "restart 2" err && fail "started again at the same step: $(cat err)"
expect_error "$launch -n 2 --restarts 3 $nan --name nan2 --set run.checkpoint_every=100" \
             "in rank 0 is not finite in step 2" "not started again" "normball: all ranks failed"
[ "$(grep -c "is not finite in step" err)" = 1 ] || fail "NaN more than once: $(cat err)"
grep -q "rank . failed" err && fail "one rank is blamed for what all saw: $(cat err)"
# A port that is taken: our message alone.
python3 -c "import socket, time; s = socket.socket(socket.AF_INET6); s.bind(('::', 0)); s.listen(); print('port', s.getsockname()[1], flush=True); time.sleep(60)" >taken &
holder=$!
wait_for taken port
port=$(sed -n 's/^port //p' taken)
expect_error "$launch -n 2 --timeout 2 --port $port train tiny.toml --name taken" "cannot open port $port"
kill $holder
grep -q "InitGoogleLogging\|c10d\]" err && fail "c10d's own lines: $(cat err)"
code=0
"$normball" launch -n 2 train tiny.toml --sett 1 >out 2>err || code=$?
[ $code = 2 ] || fail "an unknown option: exit code $code"
[ ! -e runs/few ] || fail "a run that could not start left something"
[ -z "$(ls -d "${TMPDIR:-/tmp}"/normball-ranks-* 2>/dev/null)" ] || echo "note: other launchers run now"
