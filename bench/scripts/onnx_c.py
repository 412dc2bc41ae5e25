#!/usr/bin/env python3
"""Bundles of ONNX models beside the C code that the PyPI package emx-onnx-cgen makes of them: time of a run, size of the code.

    onnx_c.py FOLDER [--tool LAMINA] [--generator emx-onnx-cgen] [--model NAME]

It writes three models with distinct random weights (LeNet; MobileNetV2 at 224x224; an LSTM of 28 steps and 64 hidden units) into
FOLDER, the C of both, and programs that run them. The generated C is compiled by Clang and GCC with -O3 -march=native. Programs
are stripped, and their size is that of .text, without weights. Each time is the shortest of interleaved runs on one thread.
It takes Python with numpy and onnx, and emx-onnx-cgen on the path.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph that grows by one node after the other."""

    def __init__(self, name, shape):
        self.rng = np.random.default_rng(1)
        self.name, self.nodes, self.weights = name, [], []
        self.input = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, shape, fan):
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, kernel, stride=1, pad=0, groups=1):
        each = inputs // groups
        return self.add("Conv", x, self.weight((outputs, each, kernel, kernel), each * kernel * kernel / 2),
                        self.weight((outputs,), 100), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                        group=groups)

    def gemm(self, x, inputs, outputs):
        return self.add("Gemm", x, self.weight((outputs, inputs), inputs), self.weight((outputs,), 100), transB=1)

    def save(self, path, count):
        self.nodes[-1].output[0] = "output"
        graph = helper.make_graph(self.nodes, self.name, [self.input],
                                  [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, count])], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return int(np.prod([d.dim_value for d in self.input.type.tensor_type.shape.dim])), count


def lenet(path):
    net = Net("lenet", [1, 1, 28, 28])
    x = net.add("Relu", net.conv("input", 1, 6, 5, pad=2))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Relu", net.conv(x, 6, 16, 5))
    x = net.add("Flatten", net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    x = net.add("Relu", net.gemm(x, 400, 120))
    net.gemm(net.add("Relu", net.gemm(x, 120, 84)), 84, 10)
    return net.save(path, 10)


def mobilenet_v2(path):
    net = Net("mobilenet_v2", [1, 3, 224, 224])
    bounds = [net.constant(np.array(v, np.float32)) for v in (0, 6)]

    def relu6(x):
        return net.add("Clip", x, *bounds)

    x, channels = relu6(net.conv("input", 3, 32, 3, 2, 1)), 32
    for factor, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                           (6, 160, 3, 2), (6, 320, 1, 1)]:
        for k in range(count):
            wide, step, y = channels * factor, stride if k == 0 else 1, x
            if factor > 1:
                y = relu6(net.conv(y, channels, wide, 1))
            y = net.conv(relu6(net.conv(y, wide, wide, 3, step, 1, wide)), wide, outputs, 1)
            x = net.add("Add", x, y) if step == 1 and channels == outputs else y
            channels = outputs
    x = net.add("GlobalAveragePool", relu6(net.conv(x, 320, 1280, 1)))
    net.gemm(net.add("Flatten", x), 1280, 1000)
    return net.save(path, 1000)


def lstm(path):
    steps, features, hidden = 28, 28, 64
    net = Net("lstm", [steps, 1, features])
    h = net.add("LSTM", "input", net.weight((1, 4 * hidden, features), features),
                net.weight((1, 4 * hidden, hidden), hidden), net.weight((1, 8 * hidden), 100), outputs=3,
                hidden_size=hidden)[1]
    net.gemm(net.add("Reshape", h, net.constant(np.array([1, hidden]))), hidden, 10)
    return net.save(path, 10)


COMMON = r"""
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void *bytes_of(const char *path, size_t n) {
  void *p = aligned_alloc(64, (n + 63) / 64 * 64);
  FILE *f = fopen(path, "rb");
  if (!p || !f || fread(p, 1, n, f) != n) exit(20);
  fclose(f);
  return p;
}
static void report(const char *path, const float *y, size_t n, double seconds) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(y, 4, n, f) != n || fclose(f)) exit(21);
  printf("%.9f\n", seconds);
}
#define MEASURE(call)                                    \
  double best = 1e9;                                     \
  int runs = atoi(words[3]), r, i;                       \
  for (r = 0; r < 5; ++r) {                              \
    double seconds = now();                              \
    for (i = 0; i < runs; ++i) call;                     \
    seconds = (now() - seconds) / runs;                  \
    if (seconds < best) best = seconds;                  \
  }
"""
PEER = COMMON + r"""
void model(const float *input, float *output);
int main(int count, char **words) {
  float *x = bytes_of(words[1], INPUTS * 4), *y = calloc(OUTPUTS, 4);
  if (count != 4) return 22;
  MEASURE(model(x, y))
  report(words[2], y, OUTPUTS, best);
  return 0;
}
"""
OURS = COMMON + r"""
#include "net.h"
#include <string.h>
int main(int count, char **words) {
  uint8_t *weights, *variables, *activations;
  if (count != 5) return 22;
  weights = bytes_of(words[4], NET_CONSTANT_MEM_SIZE);
  variables = aligned_alloc(64, NET_MUTABLE_MEM_SIZE), activations = aligned_alloc(64, NET_ACTIVATIONS_MEM_SIZE);
  memcpy(net_input(variables), bytes_of(words[1], NET_INPUT_BYTES), NET_INPUT_BYTES);
  MEASURE(if (net(weights, variables, activations)) return 23)
  report(words[2], net_output(variables), OUTPUTS, best);
  return 0;
}
"""


def run(*words, cwd):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def text_bytes(program):
    lines = run("size", "-A", program.name, cwd=program.parent).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(".text "))


def programs_of(name, make, folder, tool, generator):
    """Their names with the programs, what follows `program INPUT OUTPUT RUNS`, and the extents."""
    at = folder / name
    at.mkdir(parents=True, exist_ok=True)
    inputs, outputs = make(at / "net.onnx")
    np.random.default_rng(3).standard_normal(inputs).astype(np.float32).tofile(at / "input")
    defines = [f"-DINPUTS={inputs}", f"-DOUTPUTS={outputs}"]
    run(generator, "compile", "--large-weight-threshold", "0", "net.onnx", "peer.c", cwd=at)
    run(tool, "bundle", "net.onnx", "--name", "net", cwd=at)
    (at / "peer_main.c").write_text(PEER)
    (at / "ours_main.c").write_text(OURS)
    all_of = {}
    for compiler in ("clang-19", "gcc"):
        program = at / f"peer_{compiler}"
        run(compiler, "-O3", "-march=native", "-w", *defines, "peer.c", "peer_main.c", "-lm", "-s", "-o", program, cwd=at)
        all_of[f"emx-onnx-cgen, {compiler}"] = (program, [])
    program = at / "ours"
    run("gcc", "-O2", *defines, "ours_main.c", "net.o", "-lm", "-s", "-Wl,--gc-sections", "-o", program, cwd=at)
    all_of["lamina"] = (program, ["net.weights"])
    return at, all_of


def measure(name, make, runs, arguments):
    at, programs = programs_of(name, make, arguments.folder.resolve(), arguments.tool, arguments.generator)
    best, results = {}, {}
    for _ in range(3):
        for k, (program, more) in programs.items():
            seconds = float(run(program, "input", "output", runs, *more, cwd=at))
            best[k] = min(best.get(k, seconds), seconds)
            results[k] = np.fromfile(at / "output", np.float32)
    ours = results["lamina"]
    for k, (program, _) in programs.items():
        difference = np.max(np.abs(results[k] - ours)) / np.max(np.abs(ours))
        if not difference < 1e-4:
            sys.exit(f"{name}: {k} gives other results, by {difference:.1e}")
        print(f"| {name} | {k} | {best[k] * 1e6:.1f} | {best[k] / best['lamina']:.1f} | {text_bytes(program) / 1024:.1f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default="lamina")
    parser.add_argument("--generator", default="emx-onnx-cgen")
    parser.add_argument("--model", default="")
    arguments = parser.parse_args()
    arguments.tool = pathlib.Path(arguments.tool).resolve() if "/" in arguments.tool else arguments.tool
    print("| model | code | us | times lamina's | .text, KiB |\n|---|---|---|---|---|")
    for name, make, runs in (("LeNet", lenet, 300), ("MobileNetV2", mobilenet_v2, 1), ("LSTM", lstm, 300)):
        if arguments.model in name:
            measure(name, make, runs, arguments)


main()
