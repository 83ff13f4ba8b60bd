#!/usr/bin/env bash
# Exit codes and messages of `normball config` and `normball report`.
#   run_cli_test.sh NORMBALL WORK_DIRECTORY SOURCE_DIRECTORY
set -euo pipefail
normball=$1
work=$2
source=$3
rm -rf "$work"
mkdir -p "$work/run"
failures=0

# expect CODE TEXT ARGUMENTS...: the exit code, and a text in what is printed
expect() {
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$normball" "$@" 2>&1) || status=$?
  if [ "$status" != "$code" ] || ! grep -qF -- "$text" <<<"$output"; then
    echo "normball $*: exit code $status (expected $code), or no '$text' in:"
    echo "$output"
    failures=$((failures + 1))
  fi
}

expect 0 "cifar10-unconstrained-clipped-scion" config --list
expect 0 "optimizer.rho" config --keys
for list in --list --keys; do
  "$normball" config $list >"$work/list.txt"
  [ "$(LC_ALL=C.UTF-8 wc -L <"$work/list.txt")" -le 100 ] || { echo "config $list is too wide"; failures=$((failures + 1)); }
done
expect 0 "rho = 150.0" config --show nanogpt-124m-clipped-scion
expect 0 "lr = 0.5" config --show cifar10-adam --set optimizer.lr=0.5 --set run.seed=3
expect 0 "valid" config --check "$source/configs/cifar10-adam.toml"
expect 1 "did you mean 'cifar10-adam'" config --show cifar10-adm
expect 2 "did you mean 'lr'" config --show cifar10-adam --set optimizer.lrr=1
expect 2 "must be in [0, 1e+30]" config --show cifar10-adam --set optimizer.lr=-1
printf '[run]\nstpes = 1\n' >"$work/typo.toml"
expect 1 "typo.toml:2: in [run]: unknown key 'stpes'; did you mean 'steps'?" config --check "$work/typo.toml"
expect 2 "must be a finite number, got inf" config --check cifar10-scion --set norm.hidden_radius=inf
expect 0 "no effect any more: optimizer.alpha" config --check cifar10-scion --set optimizer.method=gd
expect 2 "optimizer.alpha has no effect" config --check cifar10-scion --set optimizer.method=gd --set optimizer.alpha=0.3
expect 2 "unknown solver 'foo'. Allowed" config --check cifar10-scion --set optimizer.solver=foo
expect 2 "--shwo" config --shwo cifar10-adam
expect 2 "exclude each other" config --list --keys
expect 2 "needs --keys" config --list --markdown
expect 2 "needs --show or --check" config --set optimizer.lr=1
expect 2 "normball: one of --list, --keys, --show and --check is required" config
expect 2 "normball: unknown option '--no-such-option'" config --no-such-option
expect 2 'got "a\nb"' config --check cifar10-adam --set "run.name=a"$'\n'"b"
expect 2 "--set run.seed=2: run.seed is given twice, first as --set run.seed=1" \
  config --check cifar10-adam --set run.seed=1 --set run.seed=2
expect 2 "normball: --json excludes --rate" doctor --json --rate
expect 0 "--set" config --help

# What --show prints is a configuration that shows as itself.
"$normball" config --show shakespeare-cpu-unconstrained-scion >"$work/resolved.toml"
"$normball" config --show "$work/resolved.toml" | cmp - "$work/resolved.toml"
# An installed program finds its presets beside it, whatever the directory.
mkdir -p "$work/prefix/bin" "$work/prefix/share/normball"
cp "$normball" "$work/prefix/bin/normball"
cp -r "$source/configs" "$work/prefix/share/normball/configs"
sed -i 's/epochs = 80/epochs = 81/' "$work/prefix/share/normball/configs/base/cifar10.toml"
(cd / && "$(realpath "$work")/prefix/bin/normball" config --show cifar10-adam) | grep -x "epochs = 81" >/dev/null
# The documentation is what the table says.
"$normball" config --keys --markdown | cmp - "$source/docs/configuration.md" ||
  { echo "docs/configuration.md is stale: normball config --keys --markdown >docs/configuration.md"; failures=$((failures + 1)); }

expect 1 "has no metrics.jsonl" report "$work/run"
printf '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n' >"$work/run/metrics.jsonl"
expect 1 "The curves: $work/run/report.html" report "$work/run"
expect 1 "config.toml" report "$work/run"
printf '[run]\nstpes = 2\n' >"$work/run/config.toml"
expect 1 "unknown key 'stpes'" report "$work/run"
printf '[run]\nsteps = 2\n' >"$work/run/config.toml"
expect 0 "The curves: $work/run/report.html" report "$work/run"
expect 0 "The curves: $work/both.html" report "$work/run" "$work/run" --out "$work/both.html"
# A classifier's losses are in the table as on the page: the last and the best.
mkdir -p "$work/classifier" && cp "$work/run/config.toml" "$work/classifier"
printf '{"step": 1, "val_loss": 0.25, "val_accuracy": 0.5}\n{"step": 2, "val_loss": 0.75, "val_accuracy": 0.625}\n' \
  >"$work/classifier/metrics.jsonl"
"$normball" report "$work/classifier" | tr -s ' ' | grep -qF "62.50 % 62.50 % 62.50 % 0.7500 0.2500 0.7500" ||
  { "$normball" report "$work/classifier"; failures=$((failures + 1)); }
# What stopped or diverged is marked, and results of different tasks are not compared.
mkdir -p "$work/stopped" && printf '[model]\nkind = "gpt"\n' >"$work/stopped/config.toml"
printf '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": "NaN", "nonfinite": "loss", "stopped": true}\n' \
  >"$work/stopped/metrics.jsonl"
expect 0 "2 ✕" report "$work/stopped"
expect 0 "stopped: stopped at step 2: loss or gradient were not finite" report "$work/stopped"
expect 0 "differ in model or data" report "$work/stopped" "$work/classifier" --out "$work/both.html"
# The page replaces no file of a run, under whatever name.
mkdir -p "$work/run/checkpoints/step-2" && echo '{}' >"$work/run/checkpoints/step-2/state.json"
ln -sf metrics.jsonl "$work/run/link.html"
ln -f "$work/run/metrics.jsonl" "$work/hard.html"
sha256sum "$work/run/metrics.jsonl" "$work/run/config.toml" "$work/run/checkpoints/step-2/state.json" >"$work/before"
for out in run/metrics.jsonl run/config.toml run/checkpoints/step-2/state.json run/new.toml run/link.html hard.html \
           run/../run/config.toml; do
  expect 2 "a file of a run that is read" report "$work/run" --out "$work/$out"
done
sha256sum -c --quiet "$work/before" || failures=$((failures + 1))
rm "$work/run/link.html" "$work/hard.html"
expect 0 "The curves: $work/run/other.html" report "$work/run" --out "$work/run/other.html"
expect 0 "The curves: $work/run/other.html" report "$work/run" --out "$work/run/other.html"
expect 1 "check the path" report "$work/run" --out "$work/missing/page.html"
expect 2 "runs is required" report
grep -q "</html>" "$work/both.html"
exit "$((failures > 0))"
