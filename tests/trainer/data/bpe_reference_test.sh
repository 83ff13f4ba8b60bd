#!/usr/bin/env bash
# Compares the GPT-2 tokenizer with npm's gpt-tokenizer and gpt-3-encoder on varied texts.
#   bpe_reference_test.sh CHECKER SOURCE_DIRECTORY WORK_DIRECTORY [COUNT [SEED]]
# Exits with 77 (skipped) where node, npm or its registry is missing.
set -euo pipefail
checker=$1
source=$2
work=$3
count=${4:-12000}
seed=${5:-1}
mkdir -p "$work"

skip() {
  echo "skipped: $*"
  exit 77
}

# get PACKAGE: npm's package unpacked in $work/PACKAGE, once
get() {
  local directory=$work/$1
  [ -e "$directory/package.json" ] && return
  local new
  new=$(mktemp -d "$work/npm-XXXXXX")
  (cd "$new" && timeout 120 npm pack --silent "$1" >/dev/null 2>&1) || {
    rm -rf "$new"
    skip "npm could not get $1 (no network?)"
  }
  tar -xzf "$new"/*.tgz -C "$new"
  rm -rf "$directory"
  mv "$new/package" "$directory"
  rm -rf "$new"
}

command -v node >/dev/null || skip "no node; apt-get install nodejs npm"
command -v npm >/dev/null || skip "no npm; apt-get install npm"
get gpt-3-encoder@1.1.4
get gpt-tokenizer@4.0.0
vocabulary=$("$source/scripts/fetch-gpt2-bpe" "$work/gpt2") || skip "no vocabulary"

echo "seed $seed"
node "$source/tests/trainer/data/bpe_reference.js" "$work/gpt-3-encoder@1.1.4" "$work/gpt-tokenizer@4.0.0" \
  "$count" "$seed" >"$work/cases.jsonl" 2>"$work/log"
tail -n 3 "$work/log"
"$checker" "$vocabulary" "$work/cases.jsonl" "$((count * 95 / 100))"
