#!/usr/bin/env bash
# bundle.sh PROGRAM DIRECTORY NETS: tests the output and the errors of `lamina bundle`.
command=(bundle)
. "$(dirname "${BASH_SOURCE[0]}")/ends.sh"

# holds FOLDER FILE...: the folder has exactly these files.
holds() {
  local folder=$1 found
  shift
  found=$(cd "$folder" && ls -A | tr '\n' ' ')
  [[ $found == "$* " ]] || fail "$folder holds $found, not $*"
}

ends 0 '^constant weights [0-9]+ bytes, mutable weights [0-9]+ bytes, activations [0-9]+ bytes$' net --name small --input 2x1x6x6 --out one
holds one small.h small.o small.weights
grep -q '^#define SMALL_INPUT_ELEMENTS 72$' one/small.h || fail "the extents are not those that were given"
ends 0 '^two/small.c$' net.json --name small --out two --entry of_three=3x1x6x6 --api dynamic --isa sse2 --target x86_64-linux-gnu --cpu x86-64 --source --text --module --dump-graph
holds two of_three.graph.dot of_three.graph.json small.c small.cppm small.graph.dot small.graph.json small.h small.o small.weights small.weights.txt
grep -q 'lamina_bundle_config of_three_config;' two/small.h || fail "no table of the second entry"
grep -q '_sse2' two/small.c && ! grep -q '_avx' two/small.c || fail "the kernels are not those of SSE2"
ends 0 sum.weights sum --name sum --input left=3x2 --input right=3x2 --out three --entry one=1x2,1x2 --instrument --dump-tensors
grep -q '^#define ONE_RIGHT_ELEMENTS 2$' three/sum.h || fail "two inputs of the second entry"
grep -q 'void one_tensor(' three/sum.h || fail "no word of the tensors"

ends 2 'needs a C identifier|has to be a C identifier' net --name 2small
ends 2 '^lamina: net: bundle `int`: the name is a keyword' net --name int
ends 2 '^lamina: net: bundle `malloc`: the name is in the C library' net --name malloc
ends 2 '^lamina: net: bundle `a`: `A_CONSTANT_MEM_SIZE` would be a macro of the entry `a` and a macro of the entry `A`' net --name a --entry A=3x1x6x6
ends 2 '--name' net
ends 2 'is not a shape' net --name small --input 2by6
ends 2 'expected NAME=SHAPE' net --name small --entry 3x1x6x6
ends 2 'net: entry `more=3x1x6x6,2`: expected 1 shape, one for each input, separated by commas; got 2' net --name small --entry more=3x1x6x6,2
ends 2 'sum: entry `big=5x2`: expected 2 shapes, one for each input, separated by commas; got 1' sum --name sum --entry big=5x2
ends 2 'absent' absent --name small
ends 2 '^lamina: sum: input `right` is \[Nx2\]; the given shape is \[4x2\], but dimension `N` is 3 in another input$' sum --name sum --input left=3x2 --input right=4x2
for target in riscv64-linux-gnu x86_64-apple-darwin x86_64-unknown-freebsd x86_64-w64-mingw32 x86_64-linux-gnux32; do
  ends 3 "^lamina: net: .*the target .$target. is not supported: bundles are object files for Linux on x86_64 or aarch64" net --name small --target $target
done
ends 0 plain/small.o net --name small --target x86_64 --out plain
LAMINA_KERNEL_SOURCES=/no/sources ends 2 'sources of the kernels .*/no/sources.*LAMINA_KERNEL_SOURCES' net --name small --target aarch64-linux-gnu
if [[ -d /usr/aarch64-linux-gnu/include/c++ ]]; then      # part of g++-aarch64-linux-gnu
  ends 0 four/sum.o sum --name sum --input left=3x2 --input right=3x2 --out four --target aarch64-linux-gnu --cpu cortex-a72 --source
  grep -q '_neon64(' four/sum.c || fail "the kernels are not those of NEON"
  [[ $(od -An -t x1 -j 18 -N 2 four/sum.o) == ' b7 00' ]] || fail "the object file is not for aarch64"
else
  echo "the headers of C and C++ for aarch64 are not here: no bundle for it is made"
fi
ends 2 'net.onnx: cannot be opened' net.onnx --name small
if "$program" export net written.onnx > /dev/null; then
  ends 0 five/small.o written.onnx --name small --shape 2x1x6x6 --out five --entry of_three=3x1x6x6 --optimize
  grep -q '^#define SMALL_INPUT_ELEMENTS 72$' five/small.h && grep -q '^#define OF_THREE_INPUT_ELEMENTS 108$' five/small.h || fail "the shapes of the model are not those that were given"
  ends 2 'written.onnx: the net has no input .inptu.; its inputs are .input.$' written.onnx --name small --shape inptu=2x1x6x6
  ends 2 'written.onnx: input .input.: .much. is not a value; expected a number or FILE.npy' written.onnx --name small --value input=much
  ends 2 'net: shapes and values of inputs are for ONNX files' net --name small --value input=1
  "$program" export written.onnx fixed.onnx --shape input=2x1x6x6 --external-above 0 > /dev/null || fail "a model is not written again"
  ends 0 six/small.o fixed.onnx --name small --out six
  grep -q '^#define SMALL_INPUT_ELEMENTS 72$' six/small.h || fail "the model has not the shape that it was written with"
fi
LAMINA_KERNELS=/no/kernels ends 2 '^lamina: net: bundle `small`: the kernels liblamina_kernels_.*/no/kernels' net --name small

[[ $failures -eq 0 ]] || exit 1
echo "good"
