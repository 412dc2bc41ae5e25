"""Problem 27: inference of a debug build, whose kernels are optimised as in every build, against the release build's."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 9
TARGET = "bench_inference"


def debug_build(run):
    """The program of a debug tree inside the build tree, made where it is not up to date; None if that fails."""
    tree = run.build / "debug"
    configure = ["cmake", "-S", str(ROOT), "-B", str(tree), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/clang.cmake", "-DLAMINA_BENCH=ON", "-DLAMINA_TESTS=OFF",
                 "-DLAMINA_SAMPLES=OFF", "-DLAMINA_TOOL=OFF"]
    build = ["cmake", "--build", str(tree), "--target", TARGET, "--parallel", "2"]
    for command in (configure, build):
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            print(f"the debug build failed: {' '.join(command)}", file=sys.stderr)
            return None
    return tree / "bench" / TARGET


def run(run):
    release = run.program(TARGET)
    debug = debug_build(run) if release else None
    if not debug:
        print(f"{TARGET} is not built")
        return []
    out = pathlib.Path(run.folder.name) / "inference.json"
    times = {debug: [], release: []}
    for number in range(ROUNDS):
        for program in (debug, release) if number % 2 else (release, debug):
            done = subprocess.run([str(program), str(out)], preexec_fn=lambda: os.sched_setaffinity(0, [run.core]))
            if done.returncode != 0:
                return []
            times[program].append(json.loads(out.read_text()))
    isa = times[debug][0]["isa"]

    def least_and_median(program, batch):
        values = sorted(one[batch] for one in times[program])
        return values[0], values[len(values) // 2]

    rows = []
    for batch in ("1", "32"):
        (ours, median), (theirs, their_median) = least_and_median(debug, batch), least_and_median(release, batch)
        print(f"LeNet inference of a debug build, batch {batch}: {ours:.2f} us, release {theirs:.2f} us", flush=True)
        rows.append({"problem": "27 debug build", "shape": f"LeNet inference, batch {batch}", "threads": 1, "isa": isa,
                     "unit": "us", "ours": ours,
                     "peers": [{"name": "the release build", "version": "lamina", "isa": isa, "value": theirs,
                                "median": their_median}],
                     "ratio": theirs / ours, "floor": "ratio >= 0.7", "goal": "ratio >= 0.9",
                     "details": {"median": median, "note": f"ours is the debug build; best of {ROUNDS} turns"}})
    return rows
