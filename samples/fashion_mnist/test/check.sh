#!/usr/bin/env bash
# check.sh PART PROGRAM MAKE_DATA DIRECTORY: one part of the sample's tests; exits with 77 if it cannot run on this machine.
set -uo pipefail
part=$1 program=$2 make_data=$3 work=$4
installed=/usr/share/datasets/fashion-mnist

rm -rf "$work"
mkdir -p "$work/data"
cd "$work" || exit 1
"$make_data" data 1500 300 || exit 1

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# run STATUS ARGUMENT...: runs the program, writes its output to the files stdout and stderr, and expects the status.
run() {
  local expected=$1 status
  shift
  "$program" "$@" >stdout 2>stderr
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected: $*"; cat stdout stderr; }
}
# refused PATTERN ARGUMENT...: expects status 2 and a single matching line on stderr.
refused() {
  local pattern=$1
  shift
  run 2 "$@"
  [[ $(wc -l <stderr) -eq 1 ]] || { fail "not one line on stderr: $*"; cat stderr; }
  grep -qE -- "$pattern" stderr || { fail "no \`$pattern\` on stderr: $*"; cat stderr; }
}
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
absent() { [[ ! -e $1 ]] || fail "$1 exists"; }
no_leftovers() {
  [[ -z $(find "$1" -name '.lamina-*' -o -name 'checkpoint*') ]] || fail "$1 holds files that are not results"
}
number() { sed -nE "s/^  \"$2\": ([-+.eE0-9]+),?\$/\1/p" "$1/report.json"; }

# The files of a complete run; its accuracy must be at least $2.
complete() {
  local out=$1 name
  keys=$(sed -nE 's/^  "([a-z0-9_]+)":.*/\1/p' "$out/report.json" | tr '\n' ' ')
  [[ $keys == "test_accuracy train_images_per_s serve_images_per_s_1 serve_images_per_s_2 bytes_per_reference "\
"seconds seed " ]] || fail "report.json holds: $keys"
  for name in $keys; do
    awk -v x="$(number "$out" "$name")" 'BEGIN { exit !(x > 0) }' ||
      fail "report.json: $name is $(number "$out" "$name")"
  done
  awk -v x="$(number "$out" test_accuracy)" -v least="$2" 'BEGIN { exit !(x >= least && x <= 1) }' ||
    fail "accuracy $(number "$out" test_accuracy), and $2 is expected"
  for name in learning_curve mistakes; do
    [[ $(head -c 4 "$out/$name.svg") == "<svg" && $(tail -n 1 "$out/$name.svg") == "</svg>" ]] ||
      fail "$name.svg is no picture"
  done
  [[ -s $out/lenet.safetensors ]] || fail "no lenet.safetensors"
  no_leftovers "$out"
}

check_report() {
  run 0 --data data --out out --epochs 4 --batch 16 --seed 7 --threads 1
  complete out 0.9
  [[ $(number out seed) == 7 ]] || fail "seed $(number out seed)"
  [[ ! -s stderr ]] || fail "stderr is not empty"
  [[ $(grep -c '^epoch ' stdout) -eq 4 ]] || fail "not one line for each epoch"
  grep -q $'[\r\033]' stdout && fail "the output is no terminal and holds control characters"
  for words in 'test accuracy' 'serving, 1 worker' 'serving, 2 workers' 'FMA probe' 'bytes for each reference model'; do
    grep -q "$words" stdout || fail "the table has no line \`$words\`"
  done
  # A second run replaces the files.
  run 0 --data data --out out --epochs 1 --batch 16 --threads 1
  complete out 0
  [[ $(number out seed) == 42 ]] || fail "report.json was not replaced"
  run 0 --help
  grep -q -- --epochs stdout || fail "--help lists no options"
}

check_determinism() {
  local common=(--data data --epochs 2 --seed 3 --batch 50)
  run 0 "${common[@]}" --threads 1 --out a
  run 0 "${common[@]}" --threads 1 --out b
  run 0 "${common[@]}" --threads 2 --out c
  same a/lenet.safetensors b/lenet.safetensors
  same a/lenet.safetensors c/lenet.safetensors
  [[ $(number a test_accuracy) == "$(number c test_accuracy)" ]] || fail "accuracies differ"
  # A batch size that leaves a smaller last batch.
  run 0 --data data --epochs 2 --seed 3 --batch 64 --threads 1 --out d
  run 0 --data data --epochs 2 --seed 3 --batch 64 --threads 2 --out e
  same d/lenet.safetensors e/lenet.safetensors
  run 0 --data data --epochs 2 --seed 4 --batch 50 --threads 1 --out f
  cmp -s a/lenet.safetensors f/lenet.safetensors && fail "the seed makes no difference"
}

check_errors() {
  local quick=(--epochs 1 --batch 50 --threads 1)
  refused 'epochs' --data data --epochs 0
  refused 'epochs' --data data --epochs many
  refused 'batch' --data data --batch -3
  refused 'lr' --data data --lr 0
  refused 'lr' --data data --lr nan
  refused 'seed' --data data --seed -1
  for seed in 99999999999999999999 9223372036854775808 1.5 0x10 ''; do refused 'seed' --data data --seed "$seed"; done
  refused 'threads' --data data --threads 100000
  refused 'not expected' --data data --color
  refused 'out' --data data --out ''
  absent results

  # Data.
  refused 'train-images-idx3-ubyte.*apt-get install dataset-fashion-mnist' "${quick[@]}" --data nowhere --out o1
  mkdir cut magic short
  cp data/* cut; cp data/* magic; cp data/* short
  gzip -c data/train-images-idx3-ubyte | head -c 5000 >cut/train-images-idx3-ubyte.gz
  refused 'cut/train-images-idx3-ubyte.gz' "${quick[@]}" --data cut --out o1
  printf 'JUNK' | dd of=magic/t10k-labels-idx1-ubyte conv=notrunc status=none
  refused 'magic/t10k-labels-idx1-ubyte' "${quick[@]}" --data magic --out o1
  head -c 700 data/train-labels-idx1-ubyte >short/train-labels-idx1-ubyte
  refused 'short/train-labels-idx1-ubyte' "${quick[@]}" --data short --out o1
  mkdir no_train no_test
  "$make_data" no_train 0 10 && "$make_data" no_test 10 0 || fail "no data sets without images"
  refused 'no_train/train-images-idx3-ubyte: expected at least one image' "${quick[@]}" --data no_train --out o1
  refused 'no_test/t10k-images-idx3-ubyte: expected at least one image' "${quick[@]}" --data no_test --out o1
  [[ -z $(ls -A o1) ]] || fail "files of a run that could not begin: $(ls -A o1)"

  # Results.
  echo old >file
  refused 'file/o2.*Not a directory' "${quick[@]}" --data data --out file/o2
  refused 'file:' "${quick[@]}" --data data --out file
  [[ $(cat file) == old ]] || fail "a file was changed"
  mkdir -p o3/mistakes.svg o4 o5
  refused 'o3/mistakes.svg.*Is a directory' "${quick[@]}" --data data --out o3
  ln -s /dev/full o4/lenet.safetensors
  refused 'o4/lenet.safetensors.*No space left' "${quick[@]}" --data data --out o4
  [[ -L o4/lenet.safetensors ]] || fail "the link to a device was replaced"
  absent o4/report.json
  ln -s /dev/full o5/report.json
  refused 'o5/report.json.*No space left' "${quick[@]}" --data data --out o5
  "$program" "${quick[@]}" --data data --out o6 >/dev/full 2>stderr
  [[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a full standard output went unnoticed"
  mkdir locked
  if [[ $EUID -ne 0 ]]; then
    chmod a-w locked
    refused 'locked.*Permission denied' "${quick[@]}" --data data --out locked
    chmod u+w locked
  else
    local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --)   # root may write everywhere
    if "${nobody[@]}" test -x "$program" 2>/dev/null && "${nobody[@]}" test -r "$work/data/t10k-labels-idx1-ubyte"; then
      "${nobody[@]}" "$program" "${quick[@]}" --data data --out locked >stdout 2>stderr
      [[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a locked directory was not refused in one line"
      grep -q 'locked.*Permission denied' stderr || { fail "no permission went unnoticed"; cat stderr; }
    fi
  fi
  [[ -z $(ls -A locked) ]] || fail "a locked directory has files"

  # Training that diverges.
  refused 'not finite' "${quick[@]}" --data data --out o9 --lr 1e30
  absent o9/lenet.safetensors

  # A truncated checkpoint is refused and not changed; the results of an earlier run are kept, too.
  run 0 "${quick[@]}" --data data --out o7
  cp o7/lenet.safetensors weights
  head -c 1000 weights >o7/checkpoint.safetensors
  cp o7/checkpoint.safetensors cut_checkpoint
  refused 'o7/checkpoint.safetensors' "${quick[@]}" --data data --out o7 --resume
  same o7/checkpoint.safetensors cut_checkpoint
  same o7/lenet.safetensors weights
  head -c 20 weights >o7/checkpoint.safetensors
  refused 'o7/checkpoint.safetensors' "${quick[@]}" --data data --out o7 --resume
  LAMINA_ISA=abacus refused 'abacus' "${quick[@]}" --data data --out o8
  [[ -z $(find . -name '.lamina-*') ]] || fail "temporary files are left: $(find . -name '.lamina-*')"
}

check_interrupt() {
  local common=(--data data --epochs 40 --batch 50 --seed 5 --threads 1) status
  run 0 --data data --epochs 1 --out stopped
  complete stopped 0
  "$program" "${common[@]}" --out stopped >stdout 2>stderr &
  local process=$!
  for _ in $(seq 600); do
    [[ -e stopped/checkpoint.safetensors ]] && break
    sleep 0.05
  done
  sleep 0.3      # beyond its first epoch, which alone would be a complete run of one epoch
  kill -INT "$process"
  wait "$process"
  status=$?
  [[ $status -eq 130 ]] || { fail "status $status, not 130"; cat stdout stderr; }
  grep -q '^interrupted.*--resume' stdout || fail "no word of the interruption"
  [[ -s stopped/lenet.safetensors && -s stopped/checkpoint.safetensors ]] || fail "nothing was saved"
  for name in report.json learning_curve.svg mistakes.svg; do absent "stopped/$name"; done    # of the run before
  # A checkpoint of more epochs or of another batch size is refused, and no file changes.
  cp -r stopped before
  refused 'stopped/checkpoint.safetensors: has [0-9]+ epochs' --data data --epochs 1 --batch 50 --seed 5 --threads 1 \
    --out stopped --resume
  refused 'batches of 50.*batches of 51' --data data --epochs 40 --batch 51 --seed 5 --threads 1 --out stopped --resume
  diff -r before stopped || fail "a refused run changed files"
  # Resuming gives the same bits as an uninterrupted run.
  run 0 "${common[@]}" --out stopped --resume
  complete stopped 0.9
  [[ $(grep -o '<circle' stopped/learning_curve.svg | wc -l) -eq 160 ]] || fail "the curve lacks epochs from before the interruption"
  run 0 "${common[@]}" --out whole
  same stopped/lenet.safetensors whole/lenet.safetensors

  # Training is complete, but the report cannot be written: resuming finishes the run.
  local short=(--data data --epochs 2 --batch 50 --seed 5 --threads 1)
  mkdir late
  ln -s /dev/full late/report.json
  refused 'late/report.json.*No space left' "${short[@]}" --out late
  cp late/lenet.safetensors weights
  rm late/report.json
  refused 'has 2 epochs and 0 batches already, but `epochs` is 1' --data data --epochs 1 --batch 50 --seed 5 \
    --threads 1 --out late --resume
  same late/lenet.safetensors weights
  run 0 "${short[@]}" --out late --resume
  complete late 0
  same late/lenet.safetensors weights
  [[ $(grep -o '<circle' late/learning_curve.svg | wc -l) -eq 8 ]] || fail "the curve of a finished training lacks its epochs"
}

check_installed() {
  if [[ ! -e $installed/train-images-idx3-ubyte.gz ]]; then
    echo "there is no $installed"
    exit 77
  fi
  run 0 --epochs 1 --out out
  complete out 0.8
  grep -q 'of 10,000 images' stdout || fail "not all test images"
  grep -q 'taken for' stdout || fail "no confused pairs"
}

# Numbers with a decimal comma elsewhere in the process change nothing (tests/support/foreign_locale.cpp).
check_locale() {
  local name options=(--data data --epochs 2 --batch 16 --seed 7 --threads 1 --lr 0.0021)
  run 0 "${options[@]}" --out here
  LD_PRELOAD=$LAMINA_LOCALE_PRELOAD run 0 "${options[@]}" --out there
  complete there 0
  for name in learning_curve.svg mistakes.svg lenet.safetensors; do same "here/$name" "there/$name"; done
  grep -qE '[0-9],[0-9]{1,2}([^0-9]|$)|[0-9]\.[0-9]{3}\.' stdout && { fail "a number with a comma"; cat stdout; }
  grep -q '^  whole run  *[0-9.]* s$' stdout || { fail "no time of the run"; cat stdout; }
  LD_PRELOAD=$LAMINA_LOCALE_PRELOAD refused '0,5' --data data --lr 0,5 --out never
}

"check_$part"
[[ $failures -eq 0 ]] || exit 1
echo "$part: good"
