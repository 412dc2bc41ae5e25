#!/usr/bin/env python3
"""How much faster two processes train than one, beside a probe of fused multiply-adds.

usage: bench/distributed/scaling.py [--build build/release] [--rounds 5] [NET:BATCH]...

Each round trains with one process and with two, on the same batches in the same shards, one thread each, and runs the probe in all
processes at once. A row has the medians of the rounds: times of a step, how much faster two are, how much more the probe computes in
two processes than in one, and the share of the one in the other.
"""
import argparse
import pathlib
import re
import statistics
import subprocess

LINE = re.compile(r": ([0-9.]+) ms a step, ([0-9.]+) at best, probe ([0-9.]+) ms")


def run(program, processes, net, batch):
    command = ["mpirun", "--allow-run-as-root", "--bind-to", "core", "-n", str(processes), str(program), "--net", net,
               "--batch", batch, "--shards", "2", "--steps", "40", "--probe", "1"]
    line = LINE.search(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return float(line[1]), float(line[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("nets", nargs="*", default=["lenet:256", "lenet:1024", "resnet:64", "perceptron:256"])
    options = parser.parse_args()
    program = pathlib.Path(options.build) / "bench" / "bench_distributed"
    print("net:batch          one        two        faster  probe  share")
    for name in options.nets:
        net, batch = name.split(":")
        rounds = [(run(program, 1, net, batch), run(program, 2, net, batch)) for _ in range(options.rounds)]
        one, two = (statistics.median(r[i][0] for r in rounds) for i in (0, 1))
        faster = statistics.median(a[0] / b[0] for a, b in rounds)
        probe = statistics.median(2 * a[1] / b[1] for a, b in rounds)
        print(f"{name:16} {one:7.3f} ms {two:7.3f} ms {faster:9.3f} {probe:6.3f} {faster / probe:6.3f}", flush=True)


if __name__ == "__main__":
    main()
