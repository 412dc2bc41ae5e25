"""LeNet (problem 11): trained and run, lamina and dlib turn by turn, each in a process of its own on the same cores."""
import importlib.util
import json
import os
import pathlib
import subprocess

import report
import turns

DATA = "/usr/share/datasets/fashion-mnist"
ROUNDS = 3
STEPS = {64: 300, 128: 150}


def rate(run, program, batch, threads, out):
    """Images per second of one turn, or None."""
    steps = run.repetitions(STEPS[batch], 5)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": str(threads),
                   "DLIB_NUM_THREADS": str(threads)}
    command = [str(program), str(out), DATA, str(batch), str(steps), str(threads)]
    done = subprocess.run(command, env=environment, preexec_fn=turns.on_cores(run, threads))
    return json.loads(out.read_text()) if done.returncode == 0 else None


def run(run):
    ours, dlib = run.program("bench_lenet_lamina"), run.program("bench_lenet_dlib")
    out = pathlib.Path(run.folder.name) / "lenet.json"
    rows = []
    absent = [] if importlib.util.find_spec("torch") else [
        {"name": "PyTorch", "version": "absent", "isa": None, "value": None, "median": None}]
    if not ours:
        print("bench_lenet_lamina is not built")
        return rows
    rounds = run.repetitions(ROUNDS)
    for threads in turns.threads_of():
        for batch in list(STEPS)[:run.repetitions(len(STEPS))]:
            mine, theirs = [], []
            for _ in range(rounds):
                for program, results in ((ours, mine), (dlib, theirs)):
                    result = rate(run, program, batch, threads, out) if program else None
                    if result:
                        results.append(result)
            if not mine:
                continue

            def row(problem, shape, key, floor):
                value = max(r[key] for r in mine)
                peer = max(r[key] for r in theirs) if theirs else None
                print(f"{report.title(problem)}, {shape}, {threads} threads: lamina {value:.0f} images/s, " +
                      (f"dlib {peer:.0f}" if peer else "dlib absent"), flush=True)
                return {"problem": problem, "shape": shape, "threads": threads, "isa": mine[0]["isa"],
                        "unit": "images/s", "ours": value,
                        "peers": [{"name": "dlib", "version": theirs[0]["version"] if theirs else "absent",
                                   "isa": None, "value": peer, "median": None}] + absent,
                        "ratio": value / peer if peer else None, "floor": floor, "goal": None,
                        "details": {"note": f"best of {rounds} turns"}}

            rows.append(row("11 LeNet training", f"Fashion-MNIST, Adam, batch {batch}", "images_per_second",
                            "ratio >= 2.0"))
            if batch == 64:
                rows.append(row("11 LeNet inference", "batch 1", "inference_1", "ratio >= 2.0"))
            rows.append(row("11 LeNet inference", f"batch {batch}", "inference_batch", "ratio >= 2.0"))
    return rows
