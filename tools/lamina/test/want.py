#!/usr/bin/env python3
"""want.py PROGRAM DIRECTORY NETS PRELOAD: tests the program `lamina` with failing allocations and thread starts.

PRELOAD is a library that makes them fail (tests/support/failing_preload.cpp). Each command runs several times, with another
allocation failing each time; allocations before `main` count, too. LAMINA_SWEEP is the number of runs per command."""
import os
import pathlib
import shutil
import subprocess
import sys

PROGRAM, WORK, NETS, PRELOAD = sys.argv[1:]
TRIED = int(os.environ.get("LAMINA_SWEEP", "25"))
TRAIN = ("train", "net", "--images", "pictures.npy", "--labels", "classes.npy", "--epochs", "2", "--batch", "10", "--rate", "0.01",
         "--threads", "2", "--out", "out/trained", "--checkpoint", "out/check")
COMMANDS = (("show", "net"), ("show", "x.npy", "--values"), ("run", "net", "--input", "x.npy"), ("bench", "net", "--repeat", "3"),
            ("plan", "net"), ("draw", "net"), TRAIN, ("profile", "net", "--input", "x.npy", "--out", "out/net.profile.json"),
            ("quantize", "net", "--profile", "net.profile.json", "--out", "out/int8"))


def ended(command, **want):
    names = {"LAMINA_FAIL_" + name.upper(): str(value) for name, value in want.items()}
    return subprocess.run([PROGRAM, *command], capture_output=True, text=True, timeout=60, env={**os.environ, "LD_PRELOAD": PRELOAD, **names})


def sweep(command):
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("out")
    whole = ended(command, report="report")
    assert whole.returncode == 0, (command, whole)
    count, refused = int(pathlib.Path("report").read_text()), 0
    assert count > 100, (command, count)
    for i in range(TRIED):
        # Fails each of the first allocations, which precede `main`, then samples over all of them.
        k, many = (i + 1, 1) if i < 12 else (1 + (i * 37 + (i - 12) * count // (TRIED - 12)) % count, 1 if i % 3 else 20)
        run = ended(command, allocation=k, count=many)
        if run.returncode == 0:
            continue
        assert run.returncode == 2 and "out of memory" in run.stderr, (command, k, many, run)
        refused += 1
    assert refused > TRIED // 2, (command, refused)
    left = [name for name in os.listdir("out") if name.startswith(".")]
    assert not left, (command, left)
    again = ended(command)
    assert again.returncode == 0, (command, again)


def threads():
    for k in (1, 2):
        for command, count in ((("bench", "net", "--threads", "4"), 4), (TRAIN, 2)):
            run = ended(command, thread=k)
            if k + 1 > count:
                assert run.returncode == 0, (command, k, run)
                continue
            said = f"lamina: net: thread_pool: thread {k + 1} of {count} cannot be started: Resource temporarily unavailable\n"
            assert run.returncode == 2 and run.stderr == said and "accuracy" not in run.stdout, (command, k, run)


shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
os.chdir(WORK)
subprocess.run([NETS, "."], check=True)
os.mkdir("out")
assert ended(("profile", "net", "--input", "x.npy", "--out", "net.profile.json")).returncode == 0
threads()
for c in COMMANDS:
    sweep(c)
print("good")
