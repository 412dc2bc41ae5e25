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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from onnx_nets import NETS, extents_of  # noqa: E402

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


def programs_of(name, net, folder, tool, generator):
    """Their names with the programs, what follows `program INPUT OUTPUT RUNS`, and the extents."""
    at = folder / name
    at.mkdir(parents=True, exist_ok=True)
    model = NETS[net]()
    onnx.save(model, at / "net.onnx")
    inputs, outputs = (int(np.prod(extents_of(value))) for value in (model.graph.input[0], model.graph.output[0]))
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


def measure(name, net, runs, arguments):
    at, programs = programs_of(name, net, arguments.folder.resolve(), arguments.tool, arguments.generator)
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
            sys.exit(f"{name}: {k}: results differ by {difference:.1e}")
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
    for name, net, runs in (("LeNet", "lenet", 300), ("MobileNetV2", "mobilenet_v2", 1), ("LSTM", "lstm", 300)):
        if arguments.model in name:
            measure(name, net, runs, arguments)


main()
