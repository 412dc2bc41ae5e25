"""Peers that `./bootstrap bench --peers` brings from PyPI; a program in peers/ measures each and prints JSON."""
import json
import pathlib
import subprocess
import sys

import report

BENCH = pathlib.Path(__file__).resolve().parent.parent
PYTHON = BENCH.parent / "build" / "peers" / "bin" / "python"


def python_with(module):
    """A Python that has a module: that of the peers, or the one that runs this; None where neither has."""
    for python in (str(PYTHON), sys.executable):
        known = [python, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{module}'))"]
        if pathlib.Path(python).exists() and subprocess.run(known).returncode == 0:
            return python
    return None


def ask(run, program, *arguments):
    """What a program says, or None where the peer is not installed."""
    if not PYTHON.exists():
        return None
    quick = ["--quick"] if run.quick else []
    done = subprocess.run([PYTHON, BENCH / "peers" / program, *map(str, arguments), *quick], stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def beside(row, name, version, value):
    """Puts a peer's value into a row that names the peer."""
    for peer in row["peers"]:
        if peer["name"] == name:
            peer.update(version=version, value=value)
            row["ratio"] = row["ours"] / value if row["unit"].endswith("/s") else value / row["ours"]
            print(f"{report.title(row['problem'])}, {row['shape']}: {name} {version} {value:.3f} {row['unit']}, ratio {row['ratio']:.3f}", flush=True)
