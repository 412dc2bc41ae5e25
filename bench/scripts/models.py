"""Whole models and attention (problems 9, 12, 21 and 31 to 34): ONNX files in `lamina bench`, ONNX Runtime and OpenVINO, each in a
process of its own on the same cores, turn by turn."""
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import pypi
import report
import turns
from report import CannotRun

SECONDS, ROUNDS = 1.0, 3
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
# What holds us and OpenVINO to an instruction set. ONNX Runtime takes what the processor has.
# Both may use AVX-VNNI, which has registers of the same size, where the processor has it.
HELD_TO = {"avx2": {"LAMINA_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI"}, "": {}}
# Fields of `Model` for what is held to AVX2, beside the peer that can be.
WITH_AVX2 = {"isa": "avx2", "peers": ("openvino",)}
# Of int8 models: their speed over that of the float form, at least and as a goal, by instruction set.
INT8 = {"resnet50": {"avx512": (2.8, 3.5), "avx2": (1.6, 1.8)}, "mobilenet_v2": {"avx512": (1.8, 2.2), "avx2": (1.2, 1.4)},
        "minilm": {"avx512": (1.8, 2.2), "avx2": (1.3, 1.5)}}
# The same of products in bfloat16, where the processor has instructions for them.
BFLOAT16 = {"resnet50": (1.5, 1.8), "mobilenet_v2": (1.2, 1.4), "minilm": (1.5, 1.8)}
# Names of the models in peers/onnx_nets.py, with the goals of their ratio on one thread and on two.
MODELS = {
    "lenet": ("LeNet", 2.0, 1.5),
    "mlp": ("MLP 784-256-10", 2.0, 1.5),
    "bert_tiny": ("BERT-tiny, T = 128", 1.08, 1.1),
    "mobilenet_v2": ("MobileNetV2", 1.2, 1.2),
    "minilm": ("MiniLM-L6, T = 128", 1.08, 1.1),
    "resnet50": ("ResNet-50", 1.3, 1.25),
}


@dataclasses.dataclass
class Model:
    """A model as we read it and as peers do, and files of its inputs by name."""
    title: str
    ours: pathlib.Path
    theirs: pathlib.Path
    inputs: dict
    tolerance: float = 1e-3      # of results, by `measure` of peers/difference.py
    measure: str = "largest"
    compute: str = "float32"     # what products round their operands to
    isa: str = ""                # what all are held to; empty: to nothing
    peers: tuple = tuple(PEERS)  # that can run it
    about: str = ""              # what a row of it says besides


class Bench:
    """What runs models in a build tree."""

    def __init__(self, run):
        self.run, self.tool = run, run.build / "lamina"
        if not self.tool.exists():
            raise CannotRun("the program lamina is not built")
        self.folder = pathlib.Path(run.folder.name)
        candidates = [pypi.PYTHON] if pypi.PYTHON.exists() else []
        if all(map(importlib.util.find_spec, ("numpy", "onnx"))):
            candidates.append(sys.executable)
        if not candidates:
            raise CannotRun("needs Python with numpy and onnx; `./bootstrap bench --peers` installs them")
        self.python = candidates[0]

    def say(self, *command, held_to=""):
        """What a command of the program says in JSON, or None where it fails."""
        done = subprocess.run([self.tool, *map(str, command), "--json"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **HELD_TO[held_to]})
        return json.loads(done.stdout) if done.returncode == 0 else None

    def written(self, titles, to="nets"):
        """Models of peers/onnx_nets.py by their names, written once."""
        folder = self.folder / to
        missing = [name for name in titles if not (folder / name / "input_0.npy").exists()]
        if missing:
            subprocess.run([self.python, pypi.BENCH / "peers" / "onnx_nets.py", folder, *missing], check=True)
        models = []
        for name, title in titles.items():
            files = sorted((folder / name).glob("input_*.npy"))
            inputs = {file.stem if len(files) > 1 else "input": file for file in files}
            models.append(Model(title, folder / name / "model.onnx", folder / name / "model.onnx", inputs))
        return models

    def inputs_of(self, model):
        """Options of the inputs."""
        return [word for name, file in model.inputs.items() for word in ("--input", f"{name}={file}")]

    def results(self, model, name):
        """Files of our results, or None."""
        said = self.say("run", model.ours, *self.inputs_of(model), "--compute", model.compute, "--out", self.folder / "results" / name,
                        held_to=model.isa)
        return said and [output["file"] for output in said["outputs"]]

    def memory_of_plan(self, model):
        """Bytes that a run takes on one thread beside inputs, outputs and weights."""
        return sum(one["bytes_arena"] + one["bytes_scratch"] for one in self.say("plan", model.ours)["segments"])

    def ask(self, script, *arguments):
        """What a script of peers/ says that needs no peer."""
        command = [self.python, pypi.BENCH / "peers" / script, *map(str, arguments)]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def difference(self, results, expected):
        return self.ask("difference.py", "--results", *results, "--expected", *expected)

    def turn_of_ours(self, model, threads, seconds):
        """Seconds and bytes of a process of ours, None where it fails."""
        repeat = 5
        for _ in range(2):  # the first one says how many runs fill the time
            command = [self.tool, "bench", model.ours, *self.inputs_of(model), "--compute", model.compute, "--threads", threads,
                       "--repeat", repeat, "--json"]
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=turns.on_cores(self.run, threads),
                                  env={**os.environ, **HELD_TO[model.isa]})
            if done.returncode:
                return None
            said = json.loads(done.stdout)
            repeat = max(5, min(int(seconds / (1e-9 * said["min_ns"])), 100000))
            if repeat == 5:
                break
        return {"version": said["isa"], "first": 1e-9 * said["first_ns"], "bytes": said["bytes_resident"],
                "least": 1e-9 * said["min_ns"], "median": 1e-9 * said["median_ns"]}

    def turn_of(self, peer, model, threads, seconds, results):
        command = [pypi.PYTHON, pypi.BENCH / "peers" / "onnx_runs.py", peer, model.theirs, "--inputs", *model.inputs.values(),
                   "--compute", model.compute, "--threads", threads, "--seconds", seconds, "--results", results]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, preexec_fn=turns.on_cores(self.run, threads),
                              env={**os.environ, **HELD_TO[model.isa]})
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        why = [line for line in done.stderr.splitlines() if line.strip()] or [f"status {done.returncode}"]
        print(f"{model.title}: {PEERS[peer]} cannot run it: {why[-1][:160]}", file=sys.stderr)
        return None

    def agrees(self, model, results, expected, peer):
        """Whether results of a peer are ours, within the tolerance; a time of something else means nothing."""
        files = sorted(results.glob("result_*.npy"), key=lambda file: int(file.stem.split("_")[1]))
        difference = self.difference(expected, files)[model.measure]
        if difference <= model.tolerance:
            return True
        print(f"{model.title}: {PEERS[peer]}: results differ by {difference:.1e}", file=sys.stderr)
        return False

    def measured(self, model, threads, seconds=SECONDS, rounds=ROUNDS, peers=True, of=min):
        """The least of several turns, or another figure `of` them, by contender, "ours" first; of a peer that is absent or fails None.
        None where ours fails."""
        seconds, rounds = self.run.repetitions(seconds, 0), self.run.repetitions(rounds)
        expected = self.results(model, "expected")
        if not expected:
            return None
        results = self.folder / "results"

        def turn_of(peer):
            def turn(number):
                one = self.turn_of(peer, model, threads, seconds, results / peer)
                return one if one and (number or self.agrees(model, results / peer, expected, peer)) else None
            return turn

        contenders = {"ours": lambda _: self.turn_of_ours(model, threads, seconds)}
        if peers and pypi.PYTHON.exists():
            contenders |= {peer: turn_of(peer) for peer in model.peers}
        figures = turns.figures_of(contenders, rounds, of)
        return {name: figures.get(name) for name in ("ours", *PEERS)} if figures["ours"] else None


def row_of(problem, model, threads, key, scale, unit, measured, floor, goal=None, note=None):
    """A row of one of the figures of a model."""
    failed = [f"{PEERS[name]} cannot run it, or its results differ" for name in model.peers if pypi.PYTHON.exists() and not measured[name]]
    return turns.row_of(problem, model.title, threads, key, scale, unit, measured, {name: PEERS[name] for name in model.peers}, floor, goal,
                        "; ".join([note] * bool(note) + failed) or None)


def titles_of(names):
    return {name: MODELS[name][0] for name in names}


def own_models(run):
    """Measurements of our models by name and number of threads, made once for all problems that read them."""
    if not hasattr(run, "own_models"):
        bench = Bench(run)
        titles = titles_of(list(MODELS)[:run.repetitions(len(MODELS), 1)])
        run.own_models = {(name, threads): (model, bench.measured(model, threads))
                          for name, model in zip(titles, bench.written(titles)) for threads in turns.threads_of()}
    return {key: one for key, one in run.own_models.items() if one[1]}


def whole_models(run):
    rows, problem = [], "12 whole models"
    for threads, floor in ((1, "ratio >= 1.1"), (2, "ratio >= 1.05")):
        of_threads = [row_of(problem, model, threads, "least", 1e6, "us", measured, "ratio >= 1.0", f"ratio >= {MODELS[name][threads]}")
                      for (name, number), (model, measured) in own_models(run).items() if number == threads]
        if of_threads:
            rows += of_threads + [report.geomean(of_threads, floor)]
    return rows + beside_a_busy_core(run) + whole_models_with_avx2(run)


def whole_models_with_avx2(run):
    """The same held to AVX2, beside the peer that can be."""
    bench, rows = Bench(run), []
    models = [dataclasses.replace(model, **WITH_AVX2)
              for model in bench.written(titles_of(list(MODELS)[:run.repetitions(len(MODELS), 1)]))]
    for threads, floor in ((1, "ratio >= 1.1"), (2, "ratio >= 1.05")):
        if threads not in turns.threads_of():
            continue
        measured = [(model, bench.measured(model, threads)) for model in models]
        of_threads = [row_of("12 whole models held to AVX2", model, threads, "least", 1e6, "us", one, "ratio >= 1.0")
                      for model, one in measured if one]
        if of_threads:
            rows += of_threads + [report.geomean(of_threads, floor)]
    return rows


def beside_a_busy_core(run):
    """Rows of answers on two threads while another program keeps the second core busy: medians, of which the middle of several turns
    counts: where the system puts the threads decides a whole turn."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return []
    bench, rows = Bench(run), []
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cores[1:2]))
    try:
        for model in bench.written(titles_of(["bert_tiny", "minilm"][:run.repetitions(2, 1)])):
            measured = bench.measured(model, 2, rounds=2 * ROUNDS + 1, of=statistics.median)
            if measured:
                rows.append(row_of("12 whole models, one of two cores busy", model, 2, "median", 1e6, "us", measured, "ratio >= 0.91", "ratio >= 1.11"))
    finally:
        busy.kill()
        busy.wait()
    return rows


def attention(run):
    """Rows of attention of 12 heads of 32, with the memory that its plan takes as a note."""
    bench, rows = Bench(run), []
    lengths = (16, 128, 512)[:run.repetitions(3)]
    models = bench.written({f"attention_{length}": f"T = {length}, 12 heads of 32" for length in lengths})
    for threads in turns.threads_of():
        measured = [(model, bench.measured(model, threads)) for model in models]
        if not all(one for _, one in measured):
            return []
        of_threads = [row_of("9 attention", model, threads, "least", 1e6, "us", one, None,
                             note=f"a thread takes {bench.memory_of_plan(model) / 1024:.0f} KiB of scratch and arena")
                      for model, one in measured]
        rows += of_threads + [report.geomean(of_threads, "ratio >= 0.95", "ratio >= 1.2")]
    return rows


def first_runs(run):
    problem, rows, memory = "21 load, plan and first run", [], []
    for (_, threads), (model, measured) in own_models(run).items():
        if threads == 1:
            rows.append(row_of(problem, model, 1, "first", 1e3, "ms", measured, "ratio >= 2", "ratio >= 10"))
            memory.append(row_of(f"{problem}, memory of the process", model, 1, "bytes", 1e-6, "MB", measured, "ratio >= 1.0"))
    return rows + memory


def scaling(run):
    """Rows of answers on two threads over one, with what peers gain as a note."""
    own, rows = own_models(run), []
    for (name, threads), (model, two) in own.items():
        one = own.get((name, 1), (None, None))[1]
        if threads != 2 or not one:
            continue
        gains = [f"{title} is {one[peer]['least'] / two[peer]['least']:.2f} times as fast" if one[peer] and two[peer] else f"{title} absent"
                 for peer, title in PEERS.items()]
        long = one["ours"]["least"] > 1e-3
        before = report.peer("one thread of lamina", "lamina", 1e6 * one["ours"]["least"], 1e6 * one["ours"]["median"])
        rows.append(report.row("31 one answer on two threads, ONNX models", model.title, "us", 1e6 * two["ours"]["least"], [before],
                               "ratio >= 1.85" if long else None, "ratio >= 1.95" if long else None, "on two threads " + ", ".join(gains), 2,
                               1e6 * two["ours"]["median"], two["ours"]["version"]))
        print(f"{report.title(rows[-1]['problem'])}, {model.title}: {rows[-1]['ratio']:.2f} ({rows[-1]['details']['note']})", flush=True)
    return rows


def quantized(bench, name, model, bits=8):
    """The same model in int8, by the ranges of four further inputs, with weights of `bits`, and what peers read of it; None where a
    command fails."""
    at = bench.folder / "nets" / name
    samples = [word for file in sorted(at.glob("sample_*.npy")) for word in ("--input", f"input={file}")]
    profile, net, written = at / "profile.json", at / f"int8_{bits}", at / f"int8_{bits}.onnx"
    for command in (["profile", model.ours, *samples, "--out", profile],
                    ["quantize", model.ours, "--profile", profile, "--weight-bits", bits, "--out", net],
                    ["export", net, written]):
        if not bench.say(*command):
            return None
    # Peers round sums differently, and each layer rounds what it reads to 8 bits: results differ by some steps.
    return dataclasses.replace(model, ours=net, theirs=written, tolerance=0.1, measure="mean",
                               about="" if bits == 8 else f"; weights have {bits} bits")


def quantized_for_avx2(bench, name, model):
    """The same, with weights of 7 bits if this processor multiplies bytes without VNNI."""
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return quantized(bench, name, model, 8 if flags and "avx_vnni" in flags[1].split() else 7)


def narrow_nets(run, names, narrowed, fields=None):
    """Models in a narrower type, each with its form in float32 and measurements by number of threads, made once for all problems that
    read them. `narrowed(bench, name, model)` gives such a model, or None; `fields`: of `Model`, for both forms."""
    bench, known = Bench(run), run.__dict__.setdefault("narrow_nets", {})
    titles, fields = titles_of(["lenet"] if run.quick else names), fields or {}
    found = {}
    for name, model in zip(titles, bench.written(titles)):
        if (narrowed, name) not in known:
            known[narrowed, name] = (narrowed(bench, name, model), {})
        made, measured = known[narrowed, name]
        model, made = dataclasses.replace(model, **fields), made and dataclasses.replace(made, **fields)
        if model.isa not in measured:
            measured[model.isa] = {threads: made and bench.measured(made, threads) for threads in turns.threads_of()}
        if all(measured[model.isa].values()):
            found[name] = (model, made, measured[model.isa])
    return found


def narrow_models(run, problem, goals, narrowed, fields=None):
    """Rows of models in a narrower type: beside the same in float32, and beside peers. `goals(name, set)`: what its ratio must be at
    least and as a goal."""
    bench, rows, beside = Bench(run), [], []
    for name, (model, narrow, of_threads) in narrow_nets(run, INT8, narrowed, fields).items():
        apart = 100 * bench.difference(bench.results(narrow, "narrow"), bench.results(model, "float"))["mean"]
        note = f"results differ from those of float32 by {apart:.1f} % (root mean squares){narrow.about}"
        for threads, measured in of_threads.items():
            float32 = bench.measured(model, threads, peers=False)
            if not float32:
                return []
            ours = measured["ours"]
            least, goal = goals(name, ours["version"])
            before = report.peer("lamina in float32", "lamina", 1e6 * float32["ours"]["least"], 1e6 * float32["ours"]["median"])
            rows.append(report.row(problem, model.title, "us", 1e6 * ours["least"], [before], least and f"ratio >= {least}",
                                   goal and f"ratio >= {goal}", note, threads, 1e6 * ours["median"], ours["version"]))
            print(f"{report.title(problem)}, {model.title}, {threads} threads: {rows[-1]['ratio']:.2f} times float32; {note}", flush=True)
            beside.append(row_of(f"{problem}, beside peers", narrow, threads, "least", 1e6, "us", measured, "ratio >= 1.0"))
    return rows + beside


def int8_models(run):
    """Rows of models in int8; ONNX Runtime and OpenVINO read what we write."""
    def goals(name, isa):
        return INT8.get(name, {}).get(isa, (None, None))

    return (narrow_models(run, "32 int8 whole models", goals, quantized) +
            narrow_models(run, "32 int8 whole models held to AVX2", goals, quantized_for_avx2, WITH_AVX2))


def int8_resnet50(run):
    """Rows of ResNet-50 in int8 beside peers."""
    return [row_of("24 int8 model", made, threads, "least", 1e6, "us", measured, "ratio >= 0.8", "ratio >= 1.0")
            for _, made, of_threads in narrow_nets(run, ["resnet50"], quantized).values() for threads, measured in of_threads.items()]


def in_bfloat16(bench, name, model):
    """The same with products of operands that are rounded to bfloat16. OpenVINO rounds what is between operations, too: results
    differ by some steps."""
    return dataclasses.replace(model, compute="bfloat16", peers=("openvino",), tolerance=0.05, measure="mean")


def bfloat16_models(run):
    """Rows of models in bfloat16, where the processor has instructions for that."""
    with open("/proc/cpuinfo") as info:
        has = "avx512_bf16" in info.read()

    def goals(name, isa):
        return BFLOAT16.get(name, (None, None)) if has and isa == "avx512" else (None, None)

    return narrow_models(run, "33 bfloat16 whole models", goals, in_bfloat16)


def if_possible(measure, run):
    """The rows of a part of a problem, or none where it cannot run here."""
    try:
        return measure(run)
    except CannotRun as why:
        print(f"left out: {why}")
        return []


def models_in(bench, folder):
    """The models of a folder as tests/onnx/models.py writes it."""
    for path in sorted(folder.glob("*/model.onnx")):
        at = path.parent
        if (at / "fixed").exists():
            print(f"{at.name}: left out, the rank of its result depends on a symbolic extent", flush=True)
            continue
        names = bench.ask("onnx_nets.py", "--inputs", path)
        files = [at / f"input_{i}.npy" for i in range(len(names))]
        if not all(file.exists() for file in files):
            print(f"{at.name}: left out, an input is missing", flush=True)
            continue
        tolerance = at / "tolerance"
        values = list(map(float, tolerance.read_text().split())) if tolerance.exists() else [1e-3]
        yield Model(at.name, path, path, dict(zip(names, files)), max(10 * max(values), 1e-3))


def real_models(run):
    """Exported models that a folder holds; a quick run reads one of our own in their place."""
    bench = Bench(run)
    if run.quick:
        bench.written(titles_of(["lenet"]), "real")
        folder = bench.folder / "real"
    elif run.models:
        folder = run.models
    else:
        raise CannotRun("needs --models FOLDER, written by tests/onnx/models.py")
    problem, rows = "34 real ONNX models", {}
    for model in models_in(bench, folder):
        for threads in turns.threads_of():
            measured = bench.measured(model, threads, 0.3, 2)
            if not measured:
                print(f"{model.title}: left out, lamina cannot run it", flush=True)
                break
            rows.setdefault(threads, []).append(row_of(problem, model, threads, "least", 1e6, "us", measured, None))
            if threads == 1:
                rows.setdefault("first", []).append(
                    row_of(f"{problem}, load, plan and first run", model, 1, "first", 1e3, "ms", measured, None))
                rows.setdefault("bytes", []).append(
                    row_of(f"{problem}, memory of the process", model, 1, "bytes", 1e-6, "MB", measured, None))
    floors = {1: ("ratio >= 1.0", "ratio >= 1.2"), 2: ("ratio >= 1.0", "ratio >= 1.2"), "first": ("ratio >= 2", "ratio >= 5"),
              "bytes": ("ratio >= 1.0", None)}
    return [row for key in floors if key in rows for row in rows[key] + [report.geomean(rows[key], *floors[key])]]
