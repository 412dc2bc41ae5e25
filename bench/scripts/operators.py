"""Single operators of ONNX (problem 35): each in `lamina bench` and in ONNX Runtime, a family after the other, turn by turn."""
import json
import subprocess

import models
import pypi
import report
import turns

SECONDS, ROUNDS = 0.1, 2
PROBLEM = "35 single operators"


def written(bench, folder):
    """The models of peers/onnx_operators.py, by family, each with its results in bench.folder/results/operators/<number>."""
    subprocess.run([bench.python, pypi.BENCH / "peers" / "onnx_operators.py", folder, *["--quick"] * bench.run.quick], check=True)
    families = {}
    for one in json.loads((folder / "list.json").read_text()):
        path = folder / f"{one['number']}.onnx"
        model = models.Model(one["title"], path, path, {f"x{i}": folder / f"{one['number']}_x{i}.npy" for i in range(one["inputs"])})
        if bench.results(model, f"operators/{one['number']}"):
            families.setdefault(one["family"], []).append(model)
        else:
            print(f"{model.title}: lamina cannot run it")
    return families


def turn_of_ours(bench, family, seconds):
    """Seconds by title, None where one fails."""
    turn = {model.title: bench.turn_of_ours(model, 1, seconds) for model in family}
    if not all(turn.values()):
        return None
    return {title: one["least"] for title, one in turn.items()} | {"version": turn[family[0].title]["version"]}


def turn_of_peer(bench, folder, name, seconds):
    command = [pypi.PYTHON, pypi.BENCH / "peers" / "onnx_operators.py", folder, "--family", name,
               "--expected", bench.folder / "results" / "operators", "--seconds", seconds]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=turns.on_cores(bench.run, 1))
    return json.loads(done.stdout) if done.returncode == 0 else None


def row_of_family(name, family, measured):
    """The geometric means of a family, with the operators where ONNX Runtime is clearly faster as a note."""
    ours, theirs = measured["ours"], measured.get("onnxruntime")
    rows = [report.row(PROBLEM, model.title, "us", 1e6 * ours[model.title],
                       [report.peer("ONNX Runtime", theirs and theirs["version"], theirs and 1e6 * theirs[model.title])], isa=ours["version"])
            for model in family if not theirs or model.title in theirs]
    if not rows:
        return []
    slow = sorted((row["ratio"], row["shape"]) for row in rows if row["ratio"] and row["ratio"] < 0.8)
    mean = report.geomean(rows, "ratio >= 1.0")
    mean["shape"] = f"{name} ({len(rows)})"
    mean["details"]["note"] = "below 0.8: " + ", ".join(f"{title} {ratio:.2f}" for ratio, title in slow) if slow else None
    print(f"{report.title(PROBLEM)}, {mean['shape']}: ratio {mean['ratio'] or 0:.2f}; {mean['details']['note'] or ''}", flush=True)
    return [mean]


def single_operators(run):
    bench = models.Bench(run)
    folder = bench.folder / "operators"
    rows, seconds = [], run.repetitions(SECONDS, 0)
    for name, family in written(bench, folder).items():
        contenders = {"ours": lambda _: turn_of_ours(bench, family, seconds)}
        if pypi.PYTHON.exists():
            contenders["onnxruntime"] = lambda _: turn_of_peer(bench, folder, name, seconds)
        measured = turns.figures_of(contenders, run.repetitions(ROUNDS))
        if measured["ours"]:
            rows += row_of_family(name, family, measured)
    return rows
