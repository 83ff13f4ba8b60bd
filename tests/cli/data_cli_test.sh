#!/usr/bin/env bash
# The exit codes, messages and files of `normball data`.
#   data_cli_test.sh NORMBALL WORK_DIRECTORY
set -euo pipefail
normball=$1
scripts=$(realpath "$(dirname "$0")")
work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
. "$scripts/shell_testing.sh"

# expect CODE TEXT ARGUMENTS...: the exit code, a text in what is printed, and errors in one line
expect() {
  local code=$1 text=$2 status=0
  shift 2
  "$normball" data "$@" >out 2>err || status=$?
  if [ "$status" != "$code" ] || ! grep -qF -- "$text" out err; then
    problem "normball data $*: exit code $status (expected $code), or no '$text' in: $(cat out err)"
  fi
  if [ "$code" = 1 ] && [ "$(wc -l <err)" != 1 ]; then
    problem "normball data $*: more than one line: $(cat err)"
  fi
}

for i in $(seq 200); do echo "Line $i: hello, the world's weather isn't $((i * i)) degrees."; done >text.txt
printf '#version: 0.2\nh e\nl l\nĠ t\n' >vocab.bpe
mkdir bpe && mv vocab.bpe bpe/

expect 0 "prepare" --help
expect 0 "--shard-tokens" prepare --help
expect 0 "written to bytes" prepare text.txt --out bytes --shard-tokens 5000
expect 0 "vocabulary 260" prepare text.txt text.txt --out pairs --bpe bpe --validation 0.2 --threads 2
expect 0 "valid: token shards" verify bytes
expect 0 "valid: token shards" verify "bytes/train_*.bin"
# A shard that is named alone has no parts: one of validation tokens is not called training.
tokens=$(sed -n 's/.*"validation_tokens": \([0-9]*\).*/\1/p' bytes/dataset.json)
expect 0 "valid: token shards with $tokens tokens below 256" verify bytes/val_000000.bin
expect 0 "tokens       $tokens" show bytes/val_000000.bin
for command in verify show; do
  "$normball" data $command bytes/val_000000.bin | grep -i training && problem "$command calls a validation shard training"
done
expect 0 "valid: text" verify text.txt
expect 0 "vocabulary of 260" verify bpe
expect 0 "Line 1: hello, the world's" show bytes
expect 0 "<|endoftext|>Line 1: hello" show pairs
expect 0 "Line 1: hello" show text.txt --bpe bpe
expect 0 "end of text is 259" show bpe
[ -e bytes/train_000002.bin ] || problem "no third shard"
cmp -s bpe/vocab.bpe pairs/vocab.bpe || problem "the vocabulary is not beside the shards"

expect 1 "exists and is not an empty directory; name a new one" prepare text.txt --out bytes
expect 1 "missing.txt: No such file" prepare missing.txt --out new
expect 1 "cannot be created" prepare text.txt --out text.txt/new
expect 1 "no vocab.bpe" prepare text.txt --out new --bpe bytes
expect 2 "--out is required" prepare text.txt
expect 2 "--bytes" prepare text.txt --out new --bytes --bpe bpe
expect 2 "--separators requires --bpe" prepare text.txt --out new --separators
expect 2 "--validation" prepare text.txt --out new --validation 1
expect 2 "--shard-tokens" prepare text.txt --out new --shard-tokens 0
expect 2 "--shard-token" prepare text.txt --out new --shard-token 5
[ ! -e new ] || problem "a failed preparation left its directory"
[ -z "$(find . -name '*.partial*')" ] || problem "partial files are left: $(find . -name '*.partial*')"

expect 1 "missing: No such file or directory" verify missing
expect 1 "outside the vocabulary of 100" verify bytes --vocabulary 100
# A changed token that is still one is found by its shard's checksum; earlier versions recorded none.
cp -r bytes changed
printf 'Z' | dd of=changed/train_000001.bin bs=1 seek=1100 conv=notrunc status=none
cmp -s bytes/train_000001.bin changed/train_000001.bin && problem "nothing was changed"
expect 1 "changed/train_000001.bin: its tokens have the checksum" verify changed
expect 1 "dataset.json says" show changed
sed -i -e '/"crc32c"/,/}/d' -e 's/\("validation_tokens": [0-9]*\),/\1/' changed/dataset.json
expect 0 "whether tokens were changed is unknown" verify changed
printf '\377\377' | dd of=changed/train_000001.bin bs=1 seek=1100 conv=notrunc status=none
expect 1 "is 65535, outside the vocabulary of 256; dataset.json says so: the file is damaged" verify changed
expect 0 "are named *val*: as data.path they would all be trained on" verify "bytes/*.bin"
"$normball" data verify bytes | grep "note" && problem "a note about good data"
# Too many shards.
for i in $(seq 20); do cat text.txt; done >long.txt
expect 1 "files; at most 100000 are made. Make the shards larger" prepare long.txt --out new --shard-tokens 1
[ ! -e new ] || problem "too many shards left a directory"
cp -r bytes broken
head -c 3000 bytes/train_000001.bin >broken/train_000001.bin
expect 1 "broken/train_000001.bin: has 3000 bytes, but its header promises 5000 tokens" verify broken
expect 1 "train_000001.bin" show broken
rm broken/train_000001.bin
expect 1 "a shard is missing or foreign, prepare the data again" verify broken
printf 'x' >broken/dataset.json
expect 1 "dataset.json: is not the JSON" verify broken
: >empty.bin
expect 1 "empty.bin: has 0 bytes" verify empty.bin
: >empty.txt
expect 1 "empty.txt: is empty" verify empty.txt
mkdir nothing
expect 1 "no known data there" verify nothing
head -c 100 /dev/zero >bad-idx3-ubyte
expect 1 "type 0" verify bad-idx3-ubyte

# A full disk: a limit on the size of files fails in the same way.
status=0
(trap '' XFSZ; ulimit -f 2; "$normball" data prepare text.txt --out full) >out 2>err || status=$?
[ "$status" = 1 ] && grep -q "while writing" err || problem "a full disk: exit code $status, $(cat err)"
[ ! -e full ] && [ -z "$(find . -name '*.partial*')" ] || problem "a full disk left files"

# A signal is noticed soon, however small the shards are.
head -c 2000000 /dev/zero | tr '\0' a >long.txt
"$normball" data prepare long.txt --out slow --shard-tokens 20 >out 2>err &
for _ in $(seq 6000); do [ -n "$(find . -maxdepth 1 -name 'slow.partial*')" ] && break; sleep 0.01; done
sleep 0.3
kill -TERM $!
begin=$(date +%s)
status=0
wait $! || status=$?
[ "$status" = 1 ] && grep -q "interrupted; nothing was written" err || problem "SIGTERM: exit code $status, $(cat out err)"
[ $(($(date +%s) - begin)) -le 30 ] || problem "SIGTERM was noticed late"
[ ! -e slow ] && [ -z "$(find . -name '*.partial*')" ] || problem "SIGTERM left files"

# Control characters of a data file never reach the terminal.
printf 'a\033[31mred\007\xff and some more text' >escape.txt
expect 0 'a\x1b[31mred\x07\xff and' show escape.txt
grep -q "$(printf '\033')" out && problem "an escape sequence was printed"

# Image folders: a JPEG of 40x30 and a PNG of 16x12 pixels.
make_pictures
for part in train/ant train/bee val/bee; do
  mkdir -p "photos/$part"
  for i in 1 2 3 4; do
    cp a.jpg "photos/$part/$i.JPEG"
    cp b.png "photos/$part/$i.png"
  done
done
echo note >photos/train/ant/readme.txt
expect 0 "16 training and 8 validation images, 2 classes" verify photos
expect 0 "1 other file" show photos
expect 0 "16 to 40, half of them 40 or more" show photos
expect 0 "Mixup and CutMix" show photos --augmented sheet.png --size 32 --seed 1
[ "$(head -c 4 sheet.png | tail -c 3)" = PNG ] || problem "the contact sheet is no PNG"
cat >photos.toml <<'END'
[run]
steps = 1
[model]
kind = "mlp"
[data]
kind = "folder"
path = "elsewhere"
size = 24
[optimizer]
method = "sgd"
lr = 0.1
END
# Without random choices every column is the same; what the keys turn on changes them, and adds a row where images are mixed.
plain="--set augment.crop_area=[1,1] --set augment.crop_ratio=[1,1] --set augment.flip=0"
expect 0 "augmentations as photos.toml has them" show photos --augmented plain.png --config photos.toml $plain --seed 1
grep -q "Mixup\|CutMix" out && problem "images are mixed though no key says so: $(cat out)"
expect 0 "then Mixup of other" show photos --augmented mixed.png --config photos.toml $plain --set augment.mixup=0.8 --seed 1
expect 0 "as photos.toml has them" show photos --augmented erased.png --config photos.toml $plain --set augment.erase=1 --seed 1
cmp -s plain.png erased.png && problem "augment.erase changed nothing"
png_height() { od -An -tu1 -j20 -N4 "$1" | awk '{ print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }'; }
[ $(($(png_height mixed.png) - $(png_height plain.png))) = 30 ] || problem "no row of mixed images: $(png_height plain.png) $(png_height mixed.png)"
expect 2 "data.kind=folder" show photos --augmented sheet.png --config fashion-mnist-unconstrained-scion
expect 2 "data.path" show photos --augmented sheet.png --config photos.toml --set data.path=other
expect 2 "--config" show photos --config photos.toml
expect 2 "--config" show photos --augmented sheet.png --set data.size=8
expect 2 "--size" show photos --augmented sheet.png --config photos.toml --size 32
expect 2 "--augmented: has no effect on a text" show text.txt --augmented sheet.png
expect 2 "--size" show photos --size 32
expect 0 "16 training and 8 validation images, 12 of them shrunk" pack photos --out packed --short-side 20
expect 0 "packed images, 16 training and 8 validation images" verify packed
expect 0 "packed images in packed" show packed
expect 1 "not an empty directory" pack photos --out packed
head -c 300 a.jpg >photos/train/bee/2.JPEG
expect 1 "1 image of 24 cannot be decoded" verify photos
grep -qF "photos/train/bee/2.JPEG: is not a whole JPEG" out || problem "the bad image is not named: $(cat out)"
expect 1 "photos/train/bee/2.JPEG" pack photos --out again
[ ! -e again ] || problem "a failed pack left a directory"
expect 0 "left out: 1 image" pack photos --out again --skip-bad
printf x | dd of=packed/train_000000.images bs=1 seek=50 conv=notrunc status=none
expect 1 "train_000000.images: has the checksum" verify packed
mkdir -p flat/train/ant flat/val && cp a.jpg flat/train/ant && cp a.jpg flat/val
expect 1 "a folder for each class" show flat

if [ -e /usr/share/datasets/fashion-mnist ]; then
  expect 0 "60000 training and 10000 test images, 10 classes" verify fashion-mnist
  expect 0 "mean 0.2860  std 0.3530" show fashion-mnist
  expect 0 "10000x28x28" show /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz
fi
exit "$((failures > 0))"
