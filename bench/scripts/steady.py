"""Problems of one program for all instruction sets: streams, the plan cache, samples one by one, overheads of small
calls, what a run does besides computing, bundles, what MetaNN was measured with, what folding gains, and CPU time of idle threads."""
import pypi


def program(run, name):
    path = run.program(name)
    if not path:
        print(f"{name} is not built")
        return []
    return run.rows([path], {}) or []


def overheads(run):
    return program(run, "bench_overheads")


def steady_state(run):
    return program(run, "bench_steady")


def streams(run):
    return program(run, "bench_stream")


def samples(run):
    return program(run, "bench_samples")


def metann(run):
    return program(run, "bench_metann")


def folding(run):
    return program(run, "bench_folding")


def plan_cache(run):
    """The peer runs before and after, and its better turn counts: both were disturbed by what else the machine does."""
    before = pypi.ask(run, "openvino_shapes.py", run.core)
    rows = program(run, "bench_plan_cache")
    turns = [peer for peer in (before, pypi.ask(run, "openvino_shapes.py", run.core)) if peer]
    for row in rows if turns else []:
        if row["peers"]:
            which = "unmet" if "not met" in row["shape"] else "met"
            pypi.beside(row, "OpenVINO", turns[0]["version"], min(peer[which] for peer in turns))
    return rows


def bundle(run):
    return program(run, "bench_bundle")


def idle(run):
    return program(run, "bench_idle")


def threads(run):
    return program(run, "bench_threads")
