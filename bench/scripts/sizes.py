"""Compile time, program size and rebuild (problems 17, 22 and 26): how long programs and the library take to compile, and how large they are."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from report import peer, row

BENCH = pathlib.Path(__file__).resolve().parent.parent
EIGEN = pathlib.Path("/usr/include/eigen3")
TIMES = 5


def timed(command, folder, times=TIMES):
    """The least seconds of several runs of a command, and its largest memory in MB; None where it fails."""
    best, memory = None, 0
    for _ in range(times):
        begin = time.perf_counter()
        child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        if status != 0:
            return None, None
        seconds = time.perf_counter() - begin
        best = seconds if best is None else min(best, seconds)
        memory = max(memory, usage.ru_maxrss / 1024)
    return best, memory


def compile_commands(build):
    path = build / "compile_commands.json"
    return {pathlib.Path(entry["file"]).name: entry for entry in json.loads(path.read_text())
            if "/bench/" in entry["file"]} if path.exists() else {}


def compiled(commands, source, times=TIMES):
    entry = commands.get(source)
    if not entry:
        return None, None
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = os.devnull  # the build tree stays as it is
    return timed(words, entry["directory"], times)


def compile_time(run):
    commands, times = compile_commands(run.build), run.repetitions(TIMES)
    if not commands:
        print("the build tree has no compile_commands.json: configure it with the preset bench", file=sys.stderr)
    compiler = shlex.split(next(iter(commands.values()))["command"])[0] if commands else "clang++-19"
    rows = []

    eigen = None
    version = ""
    with tempfile.TemporaryDirectory() as folder:
        if EIGEN.exists():
            source = pathlib.Path(folder) / "include.cpp"
            source.write_text("#include <Eigen/Dense>\nint main() {}\n")
            command = [compiler, "-std=c++20", "-O3", "-isystem", str(EIGEN), "-c", str(source), "-o", os.devnull]
            eigen, _ = timed(command, folder, times)
            macros = (EIGEN / "Eigen/src/Core/util/Macros.h").read_text().splitlines()
            version = ".".join(line.split()[2] for line in macros if line.startswith(
                ("#define EIGEN_WORLD_VERSION", "#define EIGEN_MAJOR_VERSION", "#define EIGEN_MINOR_VERSION")))
    empty, _ = compiled(commands, "empty_import.cpp", times)
    if empty:
        rows.append(row("17 compile time", "a program that imports lamina and does nothing; Eigen/Dense included", "s",
                        empty, [peer("Eigen", version, eigen)], "ours <= 0.10", "ours <= 0.05"))
    lenet, memory = compiled(commands, "train_and_serve.cpp", run.repetitions(3))
    dlib, _ = compiled(commands, "dlib_lenet.cpp", 1)
    if lenet:
        rows.append(row("17 compile time", "a program that trains and serves LeNet", "s", lenet,
                        [peer("dlib", "19.24", dlib)], "ours <= 2.0", "ours <= 1.0", "dlib's program trains only"))
        rows.append(row("17 compile time", "memory of that compilation", "MB", memory, (), "ours <= 500"))

    large, _ = compiled(commands, "large_topology.cpp", run.repetitions(3))
    if large:
        rows.append(row("17 compile time", "a topology of 200 sublayers", "s", large, (), "ours <= 4.0"))

    with tempfile.TemporaryDirectory() as folder:
        cores = sorted(os.sched_getaffinity(0))[:2]
        if not run.configure(folder, "Release"):
            return []
        begin = time.perf_counter()
        if not run.build_in(folder, "lamina", "--parallel", "2", cores=cores):
            return []
        rows.append(row("17 compile time", "clean build of the library", "s", time.perf_counter() - begin, (),
                        "ours <= 240", "ours <= 120", None, len(cores)))
    for one in rows:
        print(f"{one['shape']}: {one['ours']:.3f} {one['unit']}", flush=True)
    return rows


def program_size(run):
    rows = []
    limits = {"train_and_serve": ("a program that trains and serves LeNet", "ours <= 4", "ours <= 2"),
              "serve": ("a program that only serves LeNet", "ours <= 2", "ours <= 1")}
    strip = next((tool for tool in ("strip", "llvm-strip-19", "llvm-strip") if shutil.which(tool)), None)
    for name, (shape, floor, goal) in limits.items():
        program = run.program(f"bench_{name}")
        if not program or not strip:
            print(f"bench_{name} is not built, or strip is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            small = pathlib.Path(folder) / name
            subprocess.run([strip, "-o", str(small), str(program)], check=True)
            size = small.stat().st_size / 2**20
        rows.append(row("22 program size", shape + ", stripped", "MiB", size, (), floor, goal))
        print(f"{shape}: {size:.2f} MiB", flush=True)
    return rows


def rebuild(run):
    """Seconds until the library is built again after one file was touched; in a quick run, until it is known what to do."""
    modules = BENCH.parent / "modules"
    build = run.cmake("--build", run.build, "--target", "lamina", *(["--", "-n"] if run.quick else []))
    if timed(build, run.build, 1)[0] is None:
        return []
    rows = []
    for what, path, floor in (("a layer", "nets/layer/recurrent.cppm", 10), ("an operation", "engine/op/nn.cppm", 20),
                              (":core", "base/core/core.cppm", 120)):
        before = (modules / path).stat()
        os.utime(modules / path)
        seconds, _ = timed(build, run.build, 1)
        if run.quick:  # nothing was built, so that nothing may look newer
            os.utime(modules / path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if seconds is None:
            return []
        rows.append(row("26 rebuild", f"after touching {what}", "s", seconds, (), f"ours <= {floor}",
                        f"ours <= {floor // 2}"))
    return rows
