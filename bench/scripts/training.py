"""Training steps with their peak memory (problem 23) and decoding of tokens (problem 25): the same nets in lamina and PyTorch, on the
same cores."""
import json
import subprocess
import sys

import pypi
import report
import turns

SECONDS, ROUNDS = 1.0, 3
PEERS = {"torch": "PyTorch"}
# Names in training/lamina.cpp and peers/torch_training.py, titles, and options of the peer, of which the fastest one counts.
NETS = {
    "lenet": ("LeNet, 28 x 28, Adam, batch 128", [[], ["--channels-last"]]),
    "mlp": ("MLP 784-256-10, Adam, batch 64", [[]]),
    "wide_mlp": ("MLP 512-2048-2048-10, Adam, batch 64", [[]]),
    "gru": ("GRU 64 over 32 steps, Adam, batch 32", [[]]),
    "transformer": ("transformer of 2 layers, d = 128, T = 64, Adam, batch 16", [[]]),
    "resnet": ("ResNet-20, 3 x 32 x 32, SGD with momentum, batch 32", [[], ["--channels-last"]]),
    "resnet18": ("ResNet-18, 3 x 64 x 64, SGD with momentum, batch 16", [[], ["--channels-last"]]),
    "mobilenet": ("small MobileNetV2, 3 x 32 x 32, SGD with momentum, batch 32", [[], ["--channels-last"]]),
}


def turn(run, command, threads):
    """What a process prints, or None where it fails."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=turns.on_cores(run, threads),
                          env=run.environment(threads))
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def measured(run, name, program, python, threads):
    """The least of several turns of both. What has another number of parameters is another net: its time means nothing."""
    seconds = run.repetitions(SECONDS, 0)

    def ours(_):
        return turn(run, [program, name, threads, seconds], threads)

    def theirs(_):
        script = pypi.BENCH / "peers" / "torch_training.py"
        found = [turn(run, [python, script, name, "--threads", threads, "--seconds", seconds, *options], threads) for options in NETS[name][1]]
        return min(found, key=lambda one: one["least"]) if all(found) else None

    both = turns.figures_of({"ours": ours, **({"torch": theirs} if python else {})}, run.repetitions(ROUNDS))
    if both["ours"] and both.get("torch") and both["ours"]["parameters"] != both["torch"]["parameters"]:
        print(f"{name}: lamina has {both['ours']['parameters']} parameters, PyTorch {both['torch']['parameters']}", file=sys.stderr)
        return None
    return both


def steps(run):
    program, python = run.program("bench_training"), pypi.python_with("torch")
    if not program:
        print("bench_training is not built")
        return []
    problem, rows, memory = "23 training steps", [], []
    for threads in turns.threads_of()[:run.repetitions(2)]:
        of_threads = []
        for name in list(NETS)[:run.repetitions(len(NETS))]:
            both = measured(run, name, program, python, threads)
            if not both or not both["ours"]:
                return []
            of_threads.append(turns.row_of(problem, NETS[name][0], threads, "least", 1e3, "ms", both, PEERS, "ratio >= 0.7", "ratio >= 1.0"))
            if threads == 1:
                memory.append(turns.row_of(f"{problem}, peak memory", NETS[name][0], threads, "bytes", 1e-6, "MB", both, PEERS,
                                           "ratio >= 1.0"))
        rows += of_threads + [report.geomean(of_threads, "ratio >= 0.7", "ratio >= 1.0")]
    return rows + memory


def decoding(run):
    """Rows of a program that decodes, with PyTorch before and after it, whose better turn counts."""
    program, python = run.program("bench_decode"), pypi.python_with("torch")
    if not program:
        print("bench_decode is not built")
        return []

    def theirs(threads):
        script = pypi.BENCH / "peers" / "torch_decoding.py"
        return python and turn(run, [python, script, "--threads", threads, "--seconds", run.repetitions(SECONDS, 0)], threads)

    counts = [] if run.quick else turns.threads_of()  # a quick run has no row with this peer
    before = {threads: theirs(threads) for threads in counts}
    rows = run.rows([program], {}) or []
    for row in rows:
        if row["peers"]:
            of_threads = [one for one in (before[row["threads"]], theirs(row["threads"])) if one]
            if of_threads:
                pypi.beside(row, "PyTorch", of_threads[0]["version"], max(one["tokens"] for one in of_threads))
    return rows
