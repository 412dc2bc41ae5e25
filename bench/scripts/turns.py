"""Contenders that are processes of their own and take turns on the same cores: the least of several turns, or another figure of them,
and rows of it."""
import os

import report


def threads_of():
    return [threads for threads in (1, 2) if threads <= len(os.sched_getaffinity(0))]


def on_cores(run, threads):
    """What a process calls before it begins, to stay on its cores."""
    cores = [run.core] if threads == 1 else sorted(os.sched_getaffinity(0))[:threads]
    return lambda: os.sched_setaffinity(0, cores)


def figures_of(contenders, rounds, of=min):
    """The least figures of each contender, or another function of those of all rounds. A contender is a function that takes the number
    of the round and gives figures by name and its version; None of one that failed once. Every second round goes backwards."""
    turns = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(turns) if number % 2 else list(turns)[::-1]:
            if turns[name] is not None:
                turn = contenders[name](number)
                turns[name] = turns[name] + [turn] if turn else None
    return {name: all_of and {key: value if key == "version" else of(turn[key] for turn in all_of) for key, value in all_of[0].items()}
            for name, all_of in turns.items()}


def row_of(problem, shape, threads, key, scale, unit, measured, peers, floor, goal=None, note=None):
    """A row of one of the figures; medians beside steady times. `peers`: titles by the names of `measured`, where "ours" is ours."""
    def median(one):
        return scale * one["median"] if one and key == "least" else None

    others = [report.peer(title, one and one["version"], one and scale * one[key], median(one))
              for title, one in ((title, measured.get(name)) for name, title in peers.items())]
    ours = measured["ours"]
    made = report.row(problem, shape, unit, scale * ours[key], others, floor, goal, note, threads, median(ours), ours["version"])
    print(f"{report.title(problem)}, {shape}, {threads} threads: lamina {made['ours']:.1f} {unit}, " +
          ", ".join(f"{p['name']} {p['value']:.1f}" if p["value"] is not None else f"{p['name']} absent" for p in others), flush=True)
    return made
