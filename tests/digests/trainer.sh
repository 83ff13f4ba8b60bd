#!/usr/bin/env bash
# Lines of scripts/digests for the program: weights, optimizer state and metrics of short runs of every method with every
# model, and of some norms and solvers. trainer.sh PROGRAM PYTHON DIRECTORY
set -euo pipefail
normball=$1 python=$2
cd "$3"

for i in $(seq 400); do echo "Line $i: the quick brown fox, $((i * 7919 % 1000)) times."; done >text.txt
"$python" - <<'END'
import os, struct
os.mkdir("images")
side, count, state = 12, 64, 12345
def byte():
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return state >> 16 & 255
for part in "train", "t10k":
    with open(f"images/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, side, side) + bytes(byte() for _ in range(count * side * side)))
    with open(f"images/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
END

common='[run]\nsteps = 5\nlog_every = 1\neval_every = 3\ncheckpoint_every = 100\nthreads = 1\n[eval]\nbatches = 2\n'
{ printf "$common"
  printf '[model]\nkind = "gpt"\nlayers = 2\nwidth = 16\nheads = 2\ncontext = 16\nvocab = 256\n[data]\nkind = "text"\npath = "text.txt"\n'
  printf '[train]\nbatch = 4\nmicro_batch = 2\n'; } >gpt.toml
{ printf "$common"
  printf '[model]\nkind = "cnn"\nwidth_factor = 0.0625\n[data]\nkind = "fashion-mnist"\npath = "images"\nflip = true\n'
  printf '[train]\nbatch = 16\n'; } >cnn.toml
{ printf "$common"
  printf '[model]\nkind = "mlp"\nhidden = [24, 16]\n[data]\nkind = "fashion-mnist"\npath = "images"\n[train]\nbatch = 16\n'; } >mlp.toml

# The numbers that the method takes; the others would be refused.
numbers() {
  case $1 in
    cg) ;;
    adaptive_sd) echo --set optimizer.l0=10 --set optimizer.l1=1 ;;
    *) echo --set optimizer.lr=0.02 ;;
  esac
  case $1 in
    ggnc|s3cg|clipped_s*|clipped_lars|unconstrained_clipped_scion)
      echo --set optimizer.alpha=0.2 --set optimizer.rho=2 ;;
    lars|scion|unconstrained_scion) echo --set optimizer.alpha=0.2 ;;
    clipped_gd) echo --set optimizer.rho=2 ;;
  esac
  if [ "$1" = s3cg ]; then echo --set optimizer.beta=5 --set optimizer.short_step=norm; fi
}

# run NAME CONFIGURATION ARGUMENT...
run() {
  local name=$1 config=$2
  shift 2
  if ! "$normball" train "$config" "$@" --name "$name" >"$name.log" 2>&1; then
    cat "$name.log" >&2
    echo "digests: $name failed" >&2
    return 1
  fi
  {
    cat "runs/$name"/checkpoints/step-5/{model,optimizer}.safetensors
    sed -E 's/, "(seconds|[a-z]+_per_second)": [0-9.e+-]+//g' "runs/$name/metrics.jsonl"
  } | sha256sum | sed "s/^\([0-9a-f]*\).*/trainer-$name \1/"
  rm -r "runs/$name"
}

for model in gpt cnn mlp; do
  for method in gd normalized_gd clipped_gd sd adaptive_sd ucg ggnc cg s3cg clipped_sign clipped_spectral lars clipped_lars \
                scion unconstrained_scion clipped_scion unconstrained_clipped_scion adam adamw sgd muon; do
    # shellcheck disable=SC2046
    run "$model-$method" $model.toml --set optimizer.method=$method $(numbers $method)
  done
  for solver in damped svd power muon polar_express; do
    # shellcheck disable=SC2046
    run "$model-solver-$solver" $model.toml --set optimizer.method=unconstrained_clipped_scion \
        --set optimizer.solver=$solver $(numbers unconstrained_clipped_scion)
  done
  if [ $model = gpt ]; then
    others=(--set norm.embedding=col --set norm.embedding_radius=7)
  else
    others=(--set norm.output=col --set norm.output_radius=7 --set norm.vector=euclidean)
  fi
  # shellcheck disable=SC2046
  run "$model-norms" $model.toml --set optimizer.method=clipped_scion $(numbers clipped_scion) --set norm.hidden=row \
      --set norm.hidden_radius=3 "${others[@]}" --set model.init=sphere
  # shellcheck disable=SC2046
  run "$model-routes" $model.toml --set optimizer.method=unconstrained_clipped_scion $(numbers unconstrained_clipped_scion) \
      --set 'norm.route=[{pattern="*.0.*", radius=2.5}, {pattern="*1*", norm="rms"}]'
done
