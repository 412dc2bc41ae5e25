"""Debug build (problem 27): inference of a debug build, whose kernels are optimized as in every build, against the release build's."""
import json
import os
import pathlib
import subprocess

ROUNDS = 9
TARGET = "bench_inference"


def debug_build(run):
    """The program of a debug tree inside the build tree, made where it is not up to date; None if that fails.  A quick run
    configures the tree and compiles nothing: the program of the build tree stands in for it."""
    tree = run.build / "debug"
    if not run.configure(tree, "Debug", "-DLAMINA_BENCH=ON") or not run.build_in(tree, TARGET, "--parallel", "2"):
        return None
    return run.program(TARGET) if run.quick else tree / "bench" / TARGET


def run(run):
    release = run.program(TARGET)
    debug = debug_build(run) if release else None
    if not debug:
        print(f"{TARGET} is not built")
        return []
    out = pathlib.Path(run.folder.name) / "inference.json"
    programs, rounds = {"debug": debug, "release": release}, run.repetitions(ROUNDS)
    times = {build: [] for build in programs}
    for number in range(rounds):
        for build in ("debug", "release") if number % 2 else ("release", "debug"):
            done = subprocess.run([str(programs[build]), str(out)], preexec_fn=lambda: os.sched_setaffinity(0, [run.core]))
            if done.returncode != 0:
                return []
            times[build].append(json.loads(out.read_text()))
    isa = times["debug"][0]["isa"]

    def least_and_median(build, batch):
        values = sorted(one[batch] for one in times[build])
        return values[0], values[len(values) // 2]

    rows = []
    for batch in ("1", "32"):
        (ours, median), (theirs, their_median) = least_and_median("debug", batch), least_and_median("release", batch)
        print(f"LeNet inference of a debug build, batch {batch}: {ours:.2f} us, release {theirs:.2f} us", flush=True)
        rows.append({"problem": "27 debug build", "shape": f"LeNet inference, batch {batch}", "threads": 1, "isa": isa,
                     "unit": "us", "ours": ours,
                     "peers": [{"name": "the release build", "version": "lamina", "isa": isa, "value": theirs,
                                "median": their_median}],
                     "ratio": theirs / ours, "floor": "ratio >= 0.7", "goal": "ratio >= 0.9",
                     "details": {"median": median, "note": f"ours is the debug build; best of {rounds} turns"}})
    return rows
