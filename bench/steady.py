"""Problems 20 and 28: overheads of small calls, and what a run does besides computing."""


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
