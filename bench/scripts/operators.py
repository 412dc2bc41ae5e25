"""Single operators of ONNX (problem 35): each in `lamina bench` and in ONNX Runtime, a family after the other, turn by turn."""
import json
import subprocess

import models
import pypi
import report
import turns

SECONDS, ROUNDS = 0.1, 2
PROBLEM = "35 single operators"


def times_of_ours(bench, folder, ones, threads, seconds):
    """Seconds by title, of the operators that we run."""
    times = {}
    for one in ones:
        inputs = [word for i in range(one["inputs"]) for word in ("--input", f"x{i}={folder / str(one['number'])}_x{i}.npy")]
        least, repeat = None, 5
        for _ in range(2):  # the first one says how many runs fill the time
            command = [bench.tool, "bench", folder / f"{one['number']}.onnx", *inputs, "--threads", threads, "--repeat", repeat, "--json"]
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=turns.on_cores(bench.run, threads))
            if done.returncode:
                print(f"{one['title']}: lamina cannot run it")
                break
            said = json.loads(done.stdout)
            least, repeat = 1e-9 * said["min_ns"], max(5, min(int(seconds / (1e-9 * said["min_ns"])), 100000))
        if least:
            times |= {"version": said["isa"], one["title"]: least}
    return times


def times_of_peer(bench, folder, family, threads, seconds):
    command = [pypi.PYTHON, pypi.BENCH / "peers" / "onnx_operators.py", folder, "--family", family, "--threads", threads, "--seconds", seconds]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=turns.on_cores(bench.run, threads))
    return json.loads(done.stdout) if done.returncode == 0 else None


def row_of_family(family, ones, threads, measured):
    """The geometric means of a family, with the operators where ONNX Runtime is clearly faster as a note."""
    ours, theirs = measured["ours"], measured.get("onnxruntime")
    titles = [one["title"] for one in ones if one["title"] in ours and (not theirs or one["title"] in theirs)]
    rows = [report.row(PROBLEM, title, "us", 1e6 * ours[title],
                       [report.peer("ONNX Runtime", theirs and theirs["version"], theirs and 1e6 * theirs[title])], threads=threads, isa=ours["version"])
            for title in titles]
    if not rows:
        return []
    slow = sorted((row["ratio"], row["shape"]) for row in rows if row["ratio"] and row["ratio"] < 0.8)
    mean = report.geomean(rows, "ratio >= 1.0")
    mean["shape"] = f"{family} ({len(rows)})"
    mean["details"]["note"] = "below 0.8: " + ", ".join(f"{title} {ratio:.2f}" for ratio, title in slow) if slow else None
    print(f"{report.title(PROBLEM)}, {mean['shape']}, {threads} threads: ratio {mean['ratio'] or 0:.2f}; {mean['details']['note'] or ''}", flush=True)
    return [mean]


def single_operators(run):
    bench = models.Bench(run)
    folder = bench.folder / "operators"
    subprocess.run([bench.python, pypi.BENCH / "peers" / "onnx_operators.py", folder, *["--quick"] * run.quick], check=True)
    known = json.loads((folder / "list.json").read_text())
    for one in known:  # results, for the peer to compare with
        inputs = [word for i in range(one["inputs"]) for word in ("--input", f"x{i}={folder / str(one['number'])}_x{i}.npy")]
        bench.say("run", folder / f"{one['number']}.onnx", *inputs, "--out", folder / str(one["number"]))
    rows, seconds = [], run.repetitions(SECONDS, 0)
    for family in dict.fromkeys(one["family"] for one in known):
        ones = [one for one in known if one["family"] == family]
        contenders = {"ours": lambda _: times_of_ours(bench, folder, ones, 1, seconds)}
        if pypi.PYTHON.exists():
            contenders["onnxruntime"] = lambda _: times_of_peer(bench, folder, family, 1, seconds)
        measured = turns.least_of(contenders, run.repetitions(ROUNDS))
        if measured["ours"]:
            rows += row_of_family(family, ones, 1, measured)
    return rows
