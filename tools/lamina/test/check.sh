#!/usr/bin/env bash
# check.sh PROGRAM DIRECTORY NETS COMPLETION: tests the output and exit status of the program `lamina`. NETS writes the test nets.
set -uo pipefail
program=$1 work=$2 nets=$3 completion=$4

rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
ends() {
  local expected=$1 status
  shift
  "$program" "$@" >stdout 2>stderr
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected: $*"; cat stdout stderr; }
}
# fails STATUS PATTERN ARGUMENT...: expects this status and a single matching line on stderr.
fails() {
  local status=$1 pattern=$2
  shift 2
  ends "$status" "$@"
  [[ $(wc -l <stderr) -eq 1 && ! -s stdout ]] || { fail "not one line on stderr alone: $*"; cat stdout stderr; }
  grep -qE -- "$pattern" stderr || { fail "no \`$pattern\` on stderr: $*"; cat stderr; }
}
refused() { fails 2 "$@"; }
says() { grep -qE -- "$1" stdout || { fail "no \`$1\` on stdout"; cat stdout; }; }
plain() { LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$1" && { fail "$1 holds control characters"; cat -v "$1"; }; }
# safetensors FILE HEADER DATA: writes a safetensors file; the header is shorter than 64 KiB.
safetensors() {
  local n=${#2}
  printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8)))\\0\\0\\0\\0\\0\\0" >"$1"
  printf '%s%s' "$2" "$3" >>"$1"
}

# holds EXPRESSION: stdout is one line of JSON, `j`, for which this Python expression is true.
holds() {
  if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
text = open("stdout").read()
assert text.count("\n") == 1, "not one line"
j = json.loads(text)
assert eval(sys.argv[1]), j' "$1" || fail "JSON without $1"
  fi
}

# Usage.
refused 'subcommand'
refused 'color' show --color file
refused 'required' show
refused '^lamina: `melt` is not a command ' melt
refused '^lamina: `brench` is not a command; did you mean `bench`\?' brench net
refused '^lamina: `--nope` is not an option of `lamina run` ' run --nope
refused '^lamina: `--imput` is not an option of `lamina run`; did you mean `--input`\?' run net --imput=x.npy
for command in show run bench plan draw train doctor; do
  ends 0 "$command" --help
  says 'Usage'
  [[ ! -s stderr ]] || fail "$command --help writes to stderr"
done
for option in --help --version; do
  ends 0 "$option"
  [[ -s stdout && ! -s stderr ]] || fail "$option is not on stdout alone"
done
ends 0 show --help
ends 0 doctor
says '^cores: '
says '^self-test:( [a-z0-9]+ ok \([0-9.e-]+\))+$'
says '^  .*conv2d'
ends 0 doctor --json
holds 'j["cores"] >= 1 and j["isa"] in j["instruction_sets"] and all(t["ok"] for t in j["self_test"]) and any("conv2d" in k for k in j["kernels"])'

# Files.
safetensors good.safetensors '{"__metadata__":{"by":"hand"},"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' abcd
ends 0 show good.safetensors
[[ $(tr -s ' ' <stdout) == $'w uint8[4]\nby: hand\n1 tensors, 4 bytes' ]] || { fail "what a file holds"; cat stdout; }
ends 0 show --values good.safetensors
grep -q '97.*100' stdout || { fail "no elements"; cat stdout; }
ends 0 show --values --json good.safetensors
holds 'j == {"tensors": [{"name": "w", "dtype": "uint8", "shape": [4], "bytes": 4, "values": [97, 98, 99, 100]}], "metadata": {"by": "hand"}}'
refused 'nowhere.safetensors: cannot be read' show nowhere.safetensors
refused 'the path is empty' show ''
head -c 60 good.safetensors >cut.safetensors
refused 'cut.safetensors: header: expected' show cut.safetensors

# Names with line breaks or terminal control sequences, and very long names.
long=$(printf '%05000d' 0)
safetensors evil.safetensors \
  '{"__metadata__":{"k\u001b[2J":"v\nw'"$long"'"},"a\n\u001b[31mb\u007f":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"'"$long"'":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' ''
ends 0 show evil.safetensors
plain stdout
[[ $(wc -l <stdout) -eq 4 && $(wc -c <stdout) -lt 3000 ]] || { fail "a hostile name breaks or floods the list"; cat -v stdout; }
ends 0 show --json evil.safetensors
plain stdout
holds 'j["tensors"][0]["name"] == "a\n\x1b[31mb\x7f"'
ends 0 show evil.safetensors
grep -qF 'a\n\x1b[31mb\x7f' stdout || { fail "a name is not escaped"; cat -v stdout; }
safetensors worse.safetensors '{"a\n\u001b[31m'"$long"'":{"dtype":"U8\n\u0007'"$long"'","shape":[0],"data_offsets":[0,0]}}' ''
refused 'tensor `a\\n\\x1b\[31m0+\.\.\. \(5007 bytes\)`: dtype' show worse.safetensors
plain stderr
[[ $(wc -c <stderr) -lt 600 ]] || fail "an endless error"

# Nets.
"$nets" . || fail "no nets"
ends 0 show net
says '^input input: float32\[Nx1x6x6\]$'
says '^sublayer `conv` \(conv2d\) +\[1x4x4x4\] +40 '
says '^235 parameters, .*, 940 bytes of states, '
says '^made: for a test$'
ends 0 show net --json
holds 'j["inputs"] == [{"name": "input", "type": {"dtype": "float32", "shape": ["N", 1, 6, 6]}}] and j["shapes"] == [[1, 1, 6, 6]]'
holds '[j["parameters"], j["bytes_states"], j["metadata"]["made"]] == [235, 940, "for a test"]'
holds 'sum(l["parameters"] for l in j["layers"]) == 235 and sum(l["flops"] for l in j["layers"]) == j["flops"] > 0'
holds 'j["layers"][0]["layer"] == "sublayer `conv` (conv2d)" and j["layers"][0]["parameters"] == 40'
ends 0 show net.json --shape 8x1x6x6
says '\[8x4x4x4\]'
refused '^lamina: net: input `input` is \[Nx1x6x6\]; the given shape is \[8x1x7x6\]$' show net --shape 8x1x7x6
# A graph model in training: layers as at its outputs, parameters counted once, everything else at the end.
ends 0 show digits --shape x=5x1x6x6
[[ $(tr -s ' ' <stdout | sed -n '5,13p' | sed 's/nets.cpp:[0-9]*/HERE/; s/ [0-9.]*\( k\)\?$//') == 'layer output parameters flops
sublayer `conv` (conv2d) [5x4x4x4] 40
relu (HERE) [5x4x4x4] 0
sublayer `spatial_bn` (batch_norm2d) [5x4x4x4] 8
sublayer `max_pool` (max_pool2d) [5x4x2x2] 0
relu (HERE) [5x4x2x2] 0
sublayer `dropout` (dropout) [5x4x2x2] 0
flatten (HERE) [5x16] 0
sublayer `fc` (linear) [5x3] 51' ]] || { fail "layers of a model in training"; cat stdout; }
says '^log_softmax, pick_label, reduce_mean, \.\.\. \(nets.cpp:[0-9]+\) +\[\] +0 '
says '^\(gradients and updates\) +0 +[1-9]'
says '^99 parameters, .* for \[5x1x6x6\] \[5\]$'
# An extent name has one value in all inputs.
refused '^lamina: sum: input `right` is \[Nx2\]; the given shape is \[4x2\], but dimension `N` is 3 in another input$' show sum --shape left=3x2 --shape right=4x2
ends 0 show sum --shape right=3x2
says ' for \[3x2\] \[3x2\]$'
refused '^lamina: net: input `input`: `8xx` is not a shape' show net --shape 8xx
refused '^lamina: net: the net has no input `image`; its inputs are `input`$' plan net --shape image=1x1x6x6
refused '^lamina: net: input `input` has two shapes; expected one; got also `2x1x6x6`$' show net --shape 1x1x6x6 --shape input=2x1x6x6
refused '^lamina: sum: input `left` has two shapes' plan sum --shape left=3x2 --shape right=3x2 --shape left=3x2
refused '^lamina: net: input `input` has two shapes' bundle net --name twice --out twice --input 1x1x6x6 --input 2x1x6x6
[[ ! -e twice ]] || fail "a bundle of an input with two shapes"
for file in pair.npy pair.npz good.safetensors; do
  refused "^lamina: $file: \`--shape\` takes a net" show $file --shape 1
done
refused '^lamina: net: `--values` takes a file of tensors' show net --values
refused '^lamina: sum: `1x2` has no name; expected NAME=VALUE, since the net has 2 inputs$' plan sum --shape 1x2
refused '^lamina: nowhere.json: cannot be read' plan nowhere
refused '^lamina: some.onnx: cannot be opened: No such file' show some.onnx
refused '^lamina: some.onnx: cannot be opened: No such file' run some.onnx
refused '^lamina: pair.npy contains arrays; expected a saved net' run pair.npy
sed 's/"conv2d"/"conv9d"/' net.json >odd.json
cp net.safetensors odd.safetensors
fails 3 '^lamina: odd.json: node [0-9]+ \(conv9d\) of program 0: the operation `conv9d` is not known; .*did you mean `conv2d`\?$' run odd --input x.npy
head -c 500 net.json >cut.json
refused '^lamina: cut.json: not JSON: error at byte' show cut.json

# Arrays.
ends 0 show pair.npy --values
says '^float32\[2x2\]$'
says '3\. 4\.'
ends 0 show pair.npy --values --json
holds 'j["tensors"][0]["shape"] == [2, 2] and j["tensors"][0]["values"][2:] == [3, 4]'
ends 0 show pair.npz
[[ $(tr -s ' ' <stdout) == $'a float32[2x2]\nb int64[1]\n2 tensors, 24 bytes' ]] || { fail "what an archive holds"; cat stdout; }

# Runs: results are bit-identical to those of the saved model.
ends 0 run net --input input=x.npy --out results/deep
cmp results/deep/output.npy expected.npy || fail "results are not those of the model"
ends 0 run net --input x.npy
says '^output: float32\[2x3\]$'
ends 0 run sum --input left=pair.npy --input right=pair.npy --json
holds 'j == {"outputs": [{"name": "output", "dtype": "float32", "shape": [2, 2], "values": [2, 4, 6, 8]}]}'
ends 0 run net --input x.npy --out results/told --json
holds 'j["outputs"] == [{"name": "output", "dtype": "float32", "shape": [2, 3], "file": "results/told/output.npy"}]'
cmp results/told/output.npy expected.npy || fail "results told as JSON are not those of the model"
# A trace: consecutive events, each with its operation.
ends 0 run net --input x.npy --trace trace.json
says '^output: float32\[2x3\]$'
cp trace.json stdout && echo >>stdout
holds 'all(e["ph"] == "X" and e["dur"] >= 0 for e in j["traceEvents"]) and any("conv2d" in e["name"] for e in j["traceEvents"])'
holds 'all(abs(a["ts"] + a["dur"] - b["ts"]) < 1e-6 for a, b in zip(j["traceEvents"], j["traceEvents"][1:]))'
holds 'j["traceEvents"][0]["args"]["bytes"] > 0 and j["otherData"]["shapes"] == [[2, 1, 6, 6]]'
ends 0 run rows --input signs.npy --trace trace_of_rows.json
cp trace_of_rows.json stdout && echo >>stdout
holds '{e["cat"] for e in j["traceEvents"]} == {"segment 1", "segment 2"}'
refused '^lamina: nowhere/trace.json: cannot be written: ' run net --input x.npy --trace nowhere/trace.json
ends 0 run sum --input left=pair.npy --input right=pair.npy --out results
ends 0 show --values results/output.npy
says '6\. 8\.'
# npy files lack bfloat16 and types of up to one byte: their bits are given as integers.
ends 0 run bits --input b=b.npy --input f=f.npy --input i=i.npy --json
holds 'j["outputs"][0]["values"] == [-6, 8]'
refused '^lamina: bits: wide.npy: the element 8 is out of range for int4; expected -8 to 7' \
  run bits --input b=b.npy --input f=f.npy --input i=wide.npy
refused '^lamina: bits: input `f` is float8_e4m3fn\[2\]; got int8\[2\]' run bits --input b=b.npy --input f=i.npy --input i=i.npy
refused '^lamina: net: input `input` \(float32\[Nx1x6x6\]\) is not given' run net
refused '^lamina: sum: input `left` is given twice' run sum --input left=pair.npy --input left=pair.npy
refused '^lamina: net: input `input`' run net --input pair.npy
refused '^lamina: sum: input `left` is float32\[Nx2\]; got float64\[2x2\]' run sum --input left=double.npy --input right=pair.npy
refused '^lamina: none.npy: cannot be read' run net --input none.npy
refused '^lamina: x.npy/a: the folder cannot be created' run net --input x.npy --out x.npy/a
# / and : in names of outputs become _; no name leads out of the given folder.
ends 0 run scoped --input x.npy --out scopes
[[ $(find scopes -type f | sort | tr '\n' ' ') == 'scopes/decoder_y.npy scopes/z.npy ' ]] || { fail "files of outputs"; find scopes; }
for name in '../y' '/y' 'a/../../y' 'a//y' './y' 'y/' 'a:y'; do
  sed "s#decoder/y#$name#" scoped.json >named.json
  cp scoped.safetensors named.safetensors
  rm -rf out
  ends 0 run named --input x.npy --out out
  [[ $(ls -A out | wc -l) == 2 && -e out/${name//[\/:]/_}.npy ]] || { fail "files of output $name"; find out; }
done
sed 's#decoder/y#z#' scoped.json >named.json
rm -rf out
refused '^lamina: named: output `z` cannot be written as out/NAME.npy: another output has this file$' run named --input x.npy --out out
[[ ! -e out && ! -e y.npy ]] || fail "an output is written that has no name of a file"

# Measuring, planning, drawing.
ends 0 bench net --shape 4x1x6x6 --repeat 5 --threads 2 --json
grep -qE '^\{"isa":"[a-z0-9]+","threads":2,"repeat":5,"first_ns":[1-9][0-9]*,"min_ns":[1-9][0-9]*,"median_ns":[1-9][0-9]*,"bytes_arena":[0-9]+,"bytes_weights":940,"bytes_resident":[0-9]+\}$' stdout || { fail "the JSON of bench"; cat stdout; }
ends 0 bench net --shape 4x1x6x6 --repeat 5 --json --per-operation
holds 'j["bytes_weights"] == 940 and j["rest_ns"] >= 0'
holds 'all(o["ns"] >= 0 and o["flops"] >= 0 and o["bytes"] > 0 and o["result"].startswith("float32[") for o in j["operations"])'
holds 'set(j["operations"][0]) == {"operation", "where", "result", "layout", "kernel", "flops", "bytes", "ns"}'
ends 0 bench net --repeat 3 --per-operation
grep -qE '^operation +where +result +layout +kernel +ns +% +flops +bytes$' stdout || { fail "the table of operations"; cat stdout; }
ends 0 bench net --repeat 3
says '^median_ns +[1-9]'
ends 0 bench net --repeat 3 --input x.npy
refused '^lamina: net: input `input` is given twice$' bench net --input x.npy --input input=x.npy
refused '^lamina: net: input `input` has two shapes; expected one; got also `[0-9x]+`$' bench net --shape 4x1x6x6 --input x.npy
refused '^lamina: net: input `input` is \[Nx1x6x6\]; the given shape is \[3x2\]$' bench net --input signs.npy
refused '^lamina: --threads: 0; expected a whole number from 1 to 1024 \(' bench net --threads 0
refused '^lamina: --threads: 1\.5; expected a whole number from 1 to 1024 \(' bench net --threads 1.5
refused '^lamina: --repeat: many; expected a whole number from 1 to 100000000 \(' bench net --repeat many
ends 0 plan net
says 'conv2d'
ends 0 plan net --shape 3x1x6x6 --json
holds 'j["not_recognized"] == [] and j["shapes"] == [[3, 1, 6, 6]] and len(j["segments"]) == 1 and any("conv2d" in o["operation"] for o in j["segments"][0]["operations"])'
ends 0 plan net --measure
says '^operation +where +result +layout +kernel +ns +% +flops +bytes +% of fma +% of memory$'
says '^one core: [1-9][0-9]*\.[0-9] GFLOP/s by multiply-adds, [1-9][0-9]*\.[0-9] GB/s read from memory$'
ends 0 plan net --shape 3x1x6x6 --measure --json
holds 'j["runs"] > 0 and j["limits"]["flops_per_second"] > 1e8 and j["limits"]["bytes_per_second"] > 1e7'
holds 'all(o["ns"] >= 0 for o in j["operations"]) and any(o["kernel"] == "tiles" for o in j["operations"])'
ends 0 plan net --measure --compute bfloat16
refused '^lamina: net: input `input` is \[Nx1x6x6\]; the given shape is \[3x2\]$' plan net --measure --shape 3x2
# Data-dependent shapes: the net runs in segments.
ends 0 run rows --input signs.npy
says '^output: float32\[2x3\]$'
ends 0 plan rows --shape 5x2
says '^segment 2 of 2, for the maximum number of rows$'
says '^then counts: .*non_zero$'
ends 0 plan rows --shape 5x2 --measure
says '^non_zero'
ends 0 plan rows --shape 5x2 --json
holds 'len(j["segments"]) == 2'
ends 0 show rows --shape 5x2
ends 0 bench rows --shape 5x2 --repeat 3
ends 0 bench rows --shape 5x2 --repeat 3 --per-operation
says '^operation +where +result +layout +kernel +ns +% +flops +bytes$'
says '^non_zero'
fails 3 'rows: .*non_zero: the extent of its result is known only at run time' bundle rows --name rows --input 5x2

ends 0 draw net
says '^digraph layers'
says 'label="sublayer `conv` \(conv2d\)\\n\[1x4x4x4\]"'
says '^  i[0-9]+ -> l0;$'
says '^  l[0-9]+ -> o0;$'
grep -qE 'constant|state' stdout && fail "a drawing of layers has constants or states"
ends 0 draw net --out net.dot
grep -q '^digraph layers' net.dot || fail "no drawing"
ends 0 draw net --operations
says '^digraph program'
says 'label="state '
# Programs of a scan and of a cond in it are drawn too, each in a separate frame.
ends 0 draw branches --operations
for words in 'tanh' 'sqrt' 'label="each iteration"' 'label="if true"' 'label="if false"' 'subgraph cluster_3 ' 'label="scan: each iteration";' 'label="cond: if true";'; do says "$words"; done
ends 0 draw branches --operations --out branches.dot
if command -v dot >/dev/null; then
  ends 0 draw branches --operations --out branches.svg
  [[ $(grep -c 'class="cluster"' branches.svg) -eq 3 ]] || fail "not three frames"
fi
refused '^lamina: net.png: drawings are written as .svg or .dot, not as .png$' draw net --out net.png
[[ ! -e net.png ]] || fail "a drawing of the wrong kind"
if command -v dot >/dev/null; then
  ends 0 draw net --out net.svg
  grep -q '<svg' net.svg || fail "no SVG"
else
  fails 3 'net.svg: SVG needs the program `dot`' draw net --out net.svg
fi
[[ ! -e net.svg.dot ]] || fail "a file is left behind"

# Training.
ends 0 train net --images pictures.npy --labels classes.npy --epochs 20 --batch 10 --rate 0.01 --out trained
says '^trained.json$'
says 'accuracy 100'
ends 0 run trained --input x.npy
ends 0 show trained
grep -q '^made: ' stdout && fail "metadata of another net"
refused '^lamina: x.npy is float32\[2x1x6x6\]; expected uint8' train net --images x.npy --labels classes.npy --out trained
refused '^lamina: pictures.npy is .*; expected integers \[N\]' train net --images pictures.npy --labels pictures.npy --out trained
refused '^lamina: sum: fit: samples of the training data have 2 fields; expected at least 3: the inputs of the model in their order, then the targets' train sum --images pictures.npy --labels classes.npy --out trained
# A predictor of a graph model has parameters that are trained, and statistics that stay unchanged.
ends 0 train predictor --images pictures.npy --labels classes.npy --epochs 20 --batch 10 --rate 0.01 --out learned
says 'accuracy 100'
ends 0 show learned
says '^99 parameters'
# Open extents for which the default of 1 is invalid.
for command in 'show pool' 'plan pool' 'bench pool --repeat 1' 'draw pool' 'bundle pool --name pool'; do
  option=--shape
  [[ $command == bundle* ]] && option=--input
  refused "^lamina: pool: .*; the open extents of input \`input\`, \[Nx1xHxW\], count as 1 without $option input=\.\.\.\$" $command
  ends 0 $command $option input=1x1x4x4
done
# A net from ONNX, with a frozen layer.
if "$program" export net net.onnx >/dev/null 2>&1; then
  ends 0 train net.onnx --images pictures.npy --labels classes.npy --epochs 20 --batch 10 --rate 0.01 --freeze '^conv' --out tuned
  says 'accuracy 100'
  ends 0 export tuned tuned.onnx
  ends 0 run tuned --input x.npy
  mv stdout tuned.numbers
  ends 0 run tuned.onnx --input x.npy
  cmp -s stdout tuned.numbers || fail "a net that was trained and exported gives other numbers"
  if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "a frozen parameter was changed, or others were not"
import json
def tensors(file):
    data = open(file, "rb").read()
    n = int.from_bytes(data[:8], "little")
    return {k: data[8 + n:][slice(*v["data_offsets"])] for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
a, b = tensors("net.safetensors"), tensors("tuned.safetensors")
assert all((a[k] == b[k]) == k.startswith("conv.") for k in a), [k for k in a if a[k] == b[k]]
END
  fi
  ends 0 train tuned --images pictures.npy --labels classes.npy --freeze head --out tuned
  refused '^lamina: net.onnx: fit: no parameter of the model is trainable$' train net.onnx --images pictures.npy --labels classes.npy --freeze . --out frozen
  refused '^lamina: net.onnx: --freeze: `\(` is not a regular expression' train net.onnx --images pictures.npy --labels classes.npy --freeze '(' --out frozen
  refused '^lamina: net.onnx: --freeze: `neck` matches no parameter; there are `conv.weight`, `conv.bias`, `head.weight`, `head.bias`$' \
    train net.onnx --images pictures.npy --labels classes.npy --freeze neck --out frozen
  refused '^lamina: net.onnx: --loss log_loss: the output of the net is logits; expected --loss cross_entropy$' \
    train net.onnx --images pictures.npy --labels classes.npy --loss log_loss --out frozen
  ends 0 profile net.onnx --input x.npy --out net.onnx.profile
  fails 3 '^lamina: hosted: joined: concat_sequence: it runs on the host, between plans, and has no gradient$' \
    train hosted --images pictures.npy --labels classes.npy --out frozen
  ends 0 draw net.onnx --shape 4x1x6x6
  says '\[4x4x4x4\]'
  for command in 'show net.onnx' 'plan net.onnx' 'bench net.onnx --repeat 1' 'draw net.onnx'; do
    refused '^lamina: net.onnx: input `input` is \[Nx1x6x6\]; the given shape is \[2x1x7x6\]$' $command --shape input=2x1x7x6
    refused '^lamina: net.onnx: the net has no input `nope`; its inputs are `input`$' $command --shape nope=1
  done
  # Input shapes, for all commands that read a model. `open.onnx` does not declare the shape of its input.
  printf '\x08\x08\x3a\x27\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu\x12\x01g\x5a\x09\x0a\x01x\x12\x04\x0a\x02\x08\x01\x62\x09\x0a\x01y\x12\x04\x0a\x02\x08\x01\x42\x02\x10\x0d' >open.onnx
  for command in "run %s --input x.npy" "profile %s --input x.npy --out p" "quantize %s --profile net.onnx.profile --out q" "export %s e.onnx" \
    "source %s --out s.cppm" "train %s --images pictures.npy --labels classes.npy --out q" "show %s" "plan %s" "bench %s --repeat 1" "draw %s" \
    "bundle %s --name b"; do
    fails 3 '^lamina: open.onnx: input `x` has no shape; give one: .*--shape name=1x3x224x224$' ${command/\%s/open.onnx}
    of_net=${command/\%s/net.onnx}
    refused '^lamina: net.onnx: input `input` is \[Nx1x6x6\]; the given shape is \[6x6\]$' $of_net --shape 6x6
    refused '^lamina: net.onnx: input `input` is \[Nx1x6x6\]; the given shape is \[2x1x7x6\]$' $of_net --shape input=2x1x7x6
    refused '^lamina: net.onnx: the net has no input `image`; its inputs are `input`$' $of_net --shape image=2x1x6x6
    refused '^lamina: net.onnx: the net has no input `image`; its inputs are `input`$' $of_net --value image=2
    refused '^lamina: net.onnx: input `input` has two shapes' $of_net --shape 2x1x6x6 --shape input=3x1x6x6
    refused '^lamina: net.onnx: input `input` has two values' $of_net --value input=2 --value input=3
    refused '^lamina: net.onnx: input `input`: `much` is not a value; expected a number or FILE.npy$' $of_net --value input=much
    for given in 2by1 2x1x6x x 0x1x6x6 -2x1x6x6 1.5x1x6x6 99999999999999x1x6x6 1099511627776x1099511627776x6x6 1x1x1x1x1x1x1x1x6; do
      refused "^lamina: net.onnx: input \`input\`: \`$given\` is not a shape; expected numbers from 1, as in 8x1x28x28" $of_net --shape input=$given
      refused "^lamina: net.onnx: \`$given\` is not a shape; expected numbers from 1" $of_net --shape=$given
    done
  done
  ends 0 run open.onnx --shape 2x2 --input pair.npy --json
  holds 'j["outputs"][0]["shape"] == [2, 2] and j["outputs"][0]["values"] == [1, 2, 3, 4]'
  refused '^lamina: open.onnx: .*\[2x3\]' run open.onnx --shape x=2x3 --input pair.npy
  ends 0 profile open.onnx --shape x=2x2 --input pair.npy --out p
  ends 0 quantize open.onnx --shape x=2x2 --profile p --out q
  ends 0 source open.onnx --shape x=2x2 --out s.cppm
  grep -q 'input<2, 2>' s.cppm || fail "source of another shape"
  ends 0 show open.onnx --shape 2x2 --json
  holds 'j["inputs"][0]["type"]["shape"] == [2, 2] and j["shapes"] == [[2, 2]]'
  for command in 'plan open.onnx' 'bench open.onnx --repeat 1' 'draw open.onnx' 'bundle open.onnx --name b' 'export open.onnx e.onnx'; do
    ends 0 $command --shape 2x2
  done
  ends 0 run e.onnx --input pair.npy
  says '^y: float32\[2x2\]$'
  ends 0 run net.onnx --shape input=2x1x6x6 --input x.npy
  says '^output: float32\[2x3\]$'
  ends 0 run net.onnx --shape input=2x1x6x6 --value input=0.5 --json
  holds 'j["outputs"][0]["shape"] == [2, 3]'
  ends 0 plan net.onnx --shape input=2x1x6x6 --value input=x.npy --json
  holds 'j["shapes"] == []'
  ends 0 train net.onnx --shape input=5x1x6x6 --images pictures.npy --labels classes.npy --batch 5 --out q
  refused '^lamina: net.onnx: ' train net.onnx --shape input=5x1x6x6 --images pictures.npy --labels classes.npy --batch 6 --out q
  for command in "run net --input x.npy" "profile net --input x.npy --out p" "export net e.onnx" "source net --out s.cppm"; do
    refused '^lamina: net: shapes and values of inputs are for ONNX files; this net was saved with its own$' $command --shape 2x1x6x6
  done
  ends 0 profile net.onnx --input x.npy --out net.onnx.profile --json
  holds 'j["files"] == ["net.onnx.profile"] and j["samples"] == 1'
  ends 0 quantize net.onnx --profile net.onnx.profile --out small.onnx --json
  holds 'j["files"] == ["small.onnx"]'
  ends 0 plan small.onnx --shape 1x1x6x6
  ends 0 quantize net.onnx --profile net.onnx.profile --out small --json
  holds 'j["files"] == ["small.json", "small.safetensors"] and len(j["products"]) == 2 and all(p["quantized"] for p in j["products"])'
  ends 0 export net.onnx again.onnx --opset 18 --json
  holds 'j == {"files": ["again.onnx"], "opset": 18}'
  refused 'opset: 17; expected a whole number from 18 to 25' export net.onnx again.onnx --opset 17
  ends 0 train net.onnx --images pictures.npy --labels classes.npy --epochs 2 --batch 10 --out tuned --json
  holds 'j["files"] == ["tuned.json", "tuned.safetensors"] and [e["epoch"] for e in j["epochs"]] == [1, 2] and "validation_loss" not in j["epochs"][0]'
  ends 0 train net.onnx --images pictures.npy --labels classes.npy --batch 10 --out tuned.onnx --json
  holds 'j["files"] == ["tuned.onnx"]'
  ends 0 run tuned.onnx --input x.npy
  ends 0 bundle net.onnx --name net_of_onnx --input 2x1x6x6 --json
  holds 'all(f.split("/")[-1].startswith("net_of_onnx.") for f in j["files"]) and j["bytes_constant"] > 0'
  ends 0 source net.onnx --out written.cppm --json
  holds 'j == {"files": ["written.cppm", "written.safetensors"], "layers": 4}'
  ends 0 source net --out again.cppm
  grep -q 'nn::linear{.in_features = 64, .out_features = 3}' written.cppm || fail "no dense layer in the source"
  for out in written.cpp a-b.cppm 1.cppm class.cppm lamina.cppm; do
    refused "^lamina: .*$out: is not a name of a module; expected NAME.cppm" source net.onnx --out $out
  done
  fails 3 '^lamina: hosted: no layer is known for 2 nodes: sequence_of at `joined`.*; concat_sequence at `joined`' source hosted --out h.cppm
  fails 3 '^lamina: digits: source needs a net that has inputs and outputs and assigns no state$' source digits --out h.cppm
  ends 0 source sum --out two.cppm
  grep -q 'lamina::port_input<"left", float, "N", 2>, lamina::port_input<"right", float, "N", 2>' two.cppm || fail "source of two inputs"
  [[ ! -e h.cppm && ! -e h.safetensors ]] || fail "source of a net that has none"
  head -c 300 net.onnx >torn.onnx
  for command in 'show torn.onnx' 'run torn.onnx --input x.npy' 'bench torn.onnx' 'plan torn.onnx' 'draw torn.onnx' 'profile torn.onnx --input x.npy --out p' \
    'quantize torn.onnx --profile net.onnx.profile --out q' 'bundle torn.onnx --name torn' 'export torn.onnx t.onnx' 'source torn.onnx --out t.cppm' \
    'train torn.onnx --images pictures.npy --labels classes.npy --out q'; do
    refused '^lamina: torn.onnx: ' $command
    refused '^lamina: some.onnx: cannot be opened' ${command/torn/some}
  done
fi
# Unwritable files are reported before any computation.
for out in nowhere/trained pair.npy/trained; do
  refused "^lamina: $out.json: cannot be written: " train net --images pictures.npy --labels classes.npy --epochs 1000000 --out $out
done
mkdir -p folder.json
refused '^lamina: folder.json: cannot be written: Is a directory$' train net --images pictures.npy --labels classes.npy --epochs 1000000 --out folder
refused '^lamina: nowhere/check: cannot be written: ' train net --images pictures.npy --labels classes.npy --epochs 1000000 --out trained --checkpoint nowhere/check
[[ -z $(find . -name '.lamina-*') ]] || fail "a file of a trial is left behind"
refused 'resume requires --checkpoint' train net --images pictures.npy --labels classes.npy --out resumed --resume
[[ ! -e resumed.json ]] || fail "trained from the start where a checkpoint was to be continued"
# Interruption: a message, the status of the signal, no partial file.
interrupted() {
  local signal=$1 expected=$2 pattern=$3 status
  shift 3
  # Without --foreground the process group gets the signal too, and a second signal ends the program at once.
  timeout --foreground --preserve-status -k 60 -s "$signal" 2 "$program" "$@" >stdout 2>stderr
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected, at $signal: $*"; cat stderr; }
  [[ $(wc -l <stderr) -eq 1 ]] && grep -qE -- "$pattern" stderr || { fail "no \`$pattern\` on stderr: $*"; cat stderr; }
}
long=(train net --images pictures.npy --labels classes.npy --epochs 1000000 --batch 10 --out stopped --checkpoint stopped.at)
interrupted INT 130 '^lamina: interrupted: net: fit: stopped in epoch [0-9]+, batch [0-9]+ of .*; continue with --resume from stopped.at$' "${long[@]}"
interrupted TERM 143 '^lamina: interrupted: net: fit: stopped in epoch ' "${long[@]}" --resume
[[ ! -e stopped.json && ! -e stopped.safetensors ]] || fail "a net was written by a training that was interrupted"
compgen -G '.lamina-*' >/dev/null && fail "temporary files were left"
interrupted INT 130 '^lamina: interrupted: net: the work was not finished$' bench net --repeat 100000000
# Numbers out of range: the message states the expected range.
for given in '--rate -1' '--rate 0' '--rate nan' '--rate inf' '--deviation 0'; do
  refused "^lamina: ${given/ /: }; expected a finite number above 0 \\(" train net --images pictures.npy --labels classes.npy --out trained ${given/ /=}
done
refused '^lamina: --mean: nan; expected a finite number \(' train net --images pictures.npy --labels classes.npy --out trained --mean nan
refused 'optimizer' train net --images pictures.npy --labels classes.npy --out trained --optimizer magic

# Completion.
completes() {
  local expected=$1
  shift
  local found
  found=$(PATH="$(dirname "$program"):$PATH" bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lamina; printf "%s\n" "${COMPREPLY[@]}"' "$completion" "$@" | sort | tr '\n' ' ')
  [[ $found == "$expected" ]] || fail "completion of $*: $found, not $expected"
}
completes 'draw ' lamina dr
completes 'bench bundle doctor draw export plan profile quantize run show source train ' lamina ''
completes '--repeat ' lamina bench --r
completes 'adam adamw ' lamina train --optimizer a
completes 'pair.npy pair.npz ' lamina show pair
completes 'left=pair.npy left=pair.npz ' lamina run sum --input left=pair

# A full standard output.
"$program" show good.safetensors >/dev/full 2>stderr
[[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a full standard output went unnoticed"
"$program" --help >/dev/full 2>stderr
[[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a full standard output went unnoticed by --help"

[[ $failures -eq 0 ]] || exit 1
echo "good"
