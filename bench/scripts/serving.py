"""Serving and memory (problems 13 and 14): LeNet and a ResNet-50 served by several reference models, LeNet through a queue and over HTTP as
well; what each of them takes."""
import json
import pathlib
import subprocess

import pypi
from steady import program

PROBLEM, PEER, PEER_PROGRAM = "13 serving", "ONNX Runtime", "onnxruntime_nets.py"


def memory(run):
    rows, peer = program(run, "bench_reference_memory"), pypi.ask(run, PEER_PROGRAM, "memory")
    for row in rows if peer else []:
        if row["shape"].endswith("PSS"):
            pypi.beside(row, PEER, peer["version"], peer["bytes"][row["shape"].split(":")[0]])
    return rows


def serving(run):
    """The peer runs before and after, and its better turn counts: both were disturbed by what else the machine does."""
    run.need_cores(2)
    before = pypi.ask(run, PEER_PROGRAM)
    rows = program(run, "bench_serving")
    turns = [peer for peer in (before, pypi.ask(run, PEER_PROGRAM)) if peer]
    for row in rows if turns else []:
        name, threads = row["shape"].split(",")[0], str(row["threads"])
        if row["unit"] == "images/s" and name in turns[0]["images_per_second"]:
            pypi.beside(row, PEER, turns[0]["version"], max(peer["images_per_second"][name][threads] for peer in turns))
    return rows + over_http(run) if rows else rows


def over_http(run):
    """The sample serve under the load of its client, both on the same cores."""
    server, client = run.program("bench_http_server"), run.program("bench_http_client")
    if not server or not client:
        print("bench_http_server is not built: Boost.Beast or libpng is absent")
        return []
    folder = pathlib.Path(run.folder.name)
    weights, out, rows = folder / "served.safetensors", folder / "http.json", []
    subprocess.run([server, weights, "--untrained"], check=True)
    process = subprocess.Popen([server, weights, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = process.stdout.readline().rsplit(":", 1)[1].strip()
        for connections in (1, 8, 32):
            results = []
            for _ in range(run.repetitions(3)):
                done = subprocess.run([client, port, str(connections), str(run.repetitions(1.0, 0.1)), out])
                if done.returncode == 0:
                    results.append(json.loads(out.read_text()))
            if not results:
                continue
            best = max(results, key=lambda r: r["images_per_second"])
            rows.append({"problem": PROBLEM, "shape": f"LeNet over HTTP, 784 bytes a request, {connections} connections", "threads": 2,
                         "isa": None, "unit": "images/s", "ours": best["images_per_second"], "peers": [], "ratio": None, "floor": None,
                         "goal": None, "details": {"note": f"median {best['p50_us']:.0f} us, 99th percentile {best['p99_us']:.0f} us; "
                                                           "the client runs on the same cores"}})
            print(f"{rows[-1]['shape']}: {best['images_per_second']:.0f} images/s, {rows[-1]['details']['note']}", flush=True)
    finally:
        process.terminate()
        process.wait()
    return rows
