"""Problems of one program for all instruction sets: streams, the plan cache, loose samples, overheads of small
calls, what a run does besides computing, bundles, what MetaNN was measured with, what folding gains, and CPU time of idle threads."""


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
    return program(run, "bench_plan_cache")


def bundle(run):
    return program(run, "bench_bundle")


def idle(run):
    return program(run, "bench_idle")
