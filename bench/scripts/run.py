#!/usr/bin/env python3
"""Runs the benchmarks of a build tree and merges their rows into bench/report/.

usage: bench/scripts/run.py [--build build/bench] [--problem NAME or NUMBER]... [--exhaustive] [--quick] [--core N]
                            [--models FOLDER]
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import check_report
import report
from report import CannotRun

BENCH = pathlib.Path(__file__).resolve().parent.parent

# What holds each library to one instruction set.  BLIS 0.9 takes numbers: 0 skx, 3 haswell.
HELD_TO = {
    "avx512": {"OPENBLAS_CORETYPE": "SkylakeX", "BLIS_ARCH_TYPE": "0", "DNNL_MAX_CPU_ISA": "AVX512_CORE"},
    "avx2": {"OPENBLAS_CORETYPE": "Haswell", "BLIS_ARCH_TYPE": "3", "DNNL_MAX_CPU_ISA": "AVX2"},
}
WITH_VNNI = {"avx512": "AVX512_CORE_VNNI", "avx2": "AVX2_VNNI"}  # of oneDNN, for products of bytes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "DLIB_NUM_THREADS")


def cpu_field(name):
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return ""


def usable_sets():
    flags = set(cpu_field("flags").split())
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    return [s for s, needed in (("avx512", wide), ("avx2", {"avx2", "fma"})) if needed <= flags]


def describe_machine():
    name, system = cpu_field("model name"), platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return f"{name}, {os.cpu_count()} cores, {'/'.join(usable_sets())}; {system}"


class Run:
    def __init__(self, options):
        self.build = pathlib.Path(options.build).resolve()
        self.core = options.core
        self.exhaustive = options.exhaustive
        self.quick = options.quick
        self.models = options.models
        self.folder = tempfile.TemporaryDirectory()

    def program(self, name):
        path = self.build / "bench" / name
        return path if path.exists() else None

    def repetitions(self, count, less=1):
        """`count`, or `less` in a quick run."""
        return less if self.quick else count

    def environment(self, threads):
        """Variables that hold libraries to so many threads."""
        return {**os.environ, **{name: str(threads) for name in THREADS}}

    def need_cores(self, count):
        if len(os.sched_getaffinity(0)) < count:
            raise CannotRun(f"needs {count} cores")

    def cached(self, variable):
        """What the build tree was configured with: a variable of its CMakeCache.txt, or None."""
        for line in (self.build / "CMakeCache.txt").read_text().splitlines():
            if line.startswith(variable + ":"):
                return line.split("=", 1)[1]
        return None

    def cmake(self, *arguments):
        """A command of the CMake that made the build tree, which need not be the first one in PATH."""
        return [self.cached("CMAKE_COMMAND") or "cmake", *map(str, arguments)]

    def configure(self, tree, build_type, *definitions):
        """Configures another tree with the tools of the build tree; whether that worked."""
        tools = [f"-D{name}={self.cached(name)}" for name in ("CMAKE_CXX_COMPILER", "CMAKE_MAKE_PROGRAM") if self.cached(name)]
        off = [f"-DLAMINA_{part}=OFF" for part in ("TESTS", "SAMPLES", "TOOL")]
        root = BENCH.parent
        command = self.cmake("-S", root, "-B", tree, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={build_type}",
                             f"-DCMAKE_TOOLCHAIN_FILE={root}/cmake/clang.cmake", *tools, *off, *definitions)
        return self.succeeds(command)

    def build_in(self, tree, target, *arguments, cores=None):
        """Builds a target of a tree; whether that worked.  In a quick run nothing is compiled: the target must be there."""
        command = self.cmake("--build", tree, *(["--", "-t", "query", target] if self.quick else ["--target", target, *arguments]))
        return self.succeeds(command, preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))

    def succeeds(self, command, **options):
        if subprocess.run(command, stdout=subprocess.DEVNULL, **options).returncode == 0:
            return True
        print(f"failed: {' '.join(map(str, command))}", file=sys.stderr)
        return False

    def rows(self, command, environment):
        """Runs a program that takes --out and returns what it wrote."""
        out = pathlib.Path(self.folder.name) / "rows.json"
        out.unlink(missing_ok=True)
        quick = ["--quick"] if self.quick else []
        done = subprocess.run([*map(str, command), "--out", str(out), "--core", str(self.core), *quick],
                              env={**self.environment(1), **environment})
        if done.returncode != 0 or not out.exists():
            print(f"{command[0]} failed with status {done.returncode}", file=sys.stderr)
            return None
        return json.loads(out.read_text())

    def kernel(self, name, sets, arguments=(), vnni=False):
        """A kernel program on each instruction set that this machine has; with `vnni` oneDNN may use its products of bytes."""
        if not set(sets) & set(usable_sets()):
            raise CannotRun(f"this machine has no {' or '.join(sets)}")
        rows = []
        for one in sets:
            program = self.program(f"bench_{name}_{one}")
            if one not in usable_sets() or not program:
                print(f"bench_{name}_{one} does not run here", file=sys.stderr)
                continue
            rows += self.rows([program, "--shapes", BENCH / "shapes" / f"{name}.txt", *arguments],
                              {**HELD_TO[one], **({"DNNL_MAX_CPU_ISA": WITH_VNNI[one]} if vnni else {})}) or []
        return rows


def problems():
    """The problems by number: the name of each, and what runs for it."""
    import debug, lenet, models, operators, serving, sizes, steady, training
    return {
        1: ("sgemm avx512", lambda run: run.kernel("sgemm", ["avx512"])),
        2: ("sgemm avx2", lambda run: run.kernel("sgemm", ["avx2"])),
        3: ("inference products", lambda run: run.kernel("products", ["avx512", "avx2"])),
        4: ("small products", lambda run: run.kernel("small", ["avx512", "avx2"])),
        5: ("convolution", lambda run: run.kernel("conv", ["avx512", "avx2"])),
        6: ("chains", lambda run: run.kernel("chain", ["avx512", "avx2"])),
        7: ("exp and tanh",
            lambda run: run.kernel("math", ["avx512", "avx2"], ["--exhaustive"] if run.exhaustive else [])),
        8: ("softmax and layer normalization", lambda run: run.kernel("rows", ["avx512", "avx2"])),
        9: ("attention", models.attention),
        10: ("streams", steady.streams),
        11: ("LeNet", lenet.run),
        12: ("whole models", models.whole_models),
        13: ("serving", serving.serving),
        14: ("memory per further reference model", serving.memory),
        15: ("bundle of LeNet", steady.bundle),
        16: ("plan cache", steady.plan_cache),
        17: ("compile time", sizes.compile_time),
        18: ("per-sample evaluation", steady.samples),
        19: ("idle CPU", steady.idle),
        20: ("overheads", steady.overheads),
        21: ("load, plan and first run", models.first_runs),
        22: ("program size", sizes.program_size),
        23: ("training steps", training.steps),
        24: ("int8 products", lambda run: run.kernel("int8", ["avx512", "avx2"], vnni=True) + models.if_possible(models.int8_resnet50, run)),
        25: ("token decoding", training.decoding),
        26: ("rebuild", sizes.rebuild),
        27: ("debug build", debug.run),
        28: ("steady state", steady.steady_state),
        29: ("MetaNN's own operations", steady.metann),
        30: ("folded batch norms", steady.folding),
        31: ("one answer on two threads", lambda run: steady.threads(run) + models.if_possible(models.scaling, run)),
        32: ("int8 whole models", models.int8_models),
        33: ("bfloat16 whole models", models.bfloat16_models),
        34: ("real ONNX models", models.real_models),
        35: ("single operators", operators.single_operators),
    }


def numbers_of(wanted, known):
    """The numbers of problems that are given by number, or by name or the beginning of one."""
    numbers = []
    for one in wanted:
        found = [n for n, (name, _) in known.items() if one == str(n) or name.lower().startswith(one.lower())]
        if not found:
            names = "\n".join(f"  {n:2} {name}" for n, (name, _) in known.items())
            raise ValueError(f"--problem is {one}; expected one of\n{names}")
        numbers += found
    return sorted(set(numbers))


def main():
    parser = argparse.ArgumentParser(description="Runs the benchmarks and writes bench/report/.")
    parser.add_argument("--build", default=BENCH.parent / "build" / "bench",
                        help="the build tree (default: build/bench)")
    parser.add_argument("--problem", metavar="NAME", action="append",
                        help="only this problem: its name, a prefix of it, or its number; may be repeated")
    parser.add_argument("--exhaustive", action="store_true", help="look for errors over all 2^32 floats (some minutes)")
    parser.add_argument("--quick", action="store_true",
                        help="smoke test: each problem at its smallest size, once; figures are meaningless")
    parser.add_argument("--models", type=pathlib.Path, metavar="FOLDER",
                        help="folder of real ONNX models to measure, written by tests/onnx/models.py")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on")
    parser.add_argument("--report", help="where to write (default: bench/report; with --quick, the build tree)")
    options = parser.parse_args()

    known = problems()
    try:
        numbers = numbers_of(options.problem, known) if options.problem else known
    except ValueError as why:
        parser.error(str(why))
    run = Run(options)
    folder = pathlib.Path(options.report or (run.build / "quick_report" if run.quick else BENCH / "report"))
    rows = [] if run.quick else report.read(folder)
    failed = []
    for number in numbers:
        name, measure = known[number]
        print(f"== {report.title(f'{number} {name}')}", flush=True)
        try:
            new = measure(run)
        except CannotRun as why:
            print(f"left out: {why}")
            continue
        if not new:
            failed.append(report.title(f"{number} {name}"))
        else:
            rows = [row for row in rows if report.number_of(row) != number]
            rows += [{"machine": describe_machine(), **row} for row in new]
            report.write(folder, datetime.date.today().isoformat(), rows)
    if run.quick:
        faults = [fault for row in rows for fault in check_report.faults_of_details(row)]
        print("\n".join(faults + [f"{problem} gave no result" for problem in failed]) or f"{len(rows)} rows, all valid")
        return 1 if failed or faults else 0
    missed = [f"{report.title(r['problem'])}, {r['shape']}" for r in rows if report.meets(r, r["floor"]) is False]
    print(f"written to {folder}; floors missed: {len(missed)}")
    for line in missed:
        print(f"  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
