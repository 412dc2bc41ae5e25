"""LeNet and a ResNet-50 in ONNX Runtime: images a second of N sessions, one process each, and bytes that one more session
takes.

The driver is Python: what a call of it costs is measured with a graph that does nothing, and subtracted.  Prints JSON."""
import json
import multiprocessing
import os
import sys
import time

import numpy
import onnxruntime

from onnx_nets import lenet, nothing, resnet50
from onnx_runs import onnxruntime_session

SESSIONS = 40
QUICK = "--quick" in sys.argv

# How to make each net, its images, the seconds of a turn and how many turns there are.
NETS = {"LeNet": (lenet, (1, 1, 28, 28), 0.5, 5), "ResNet-50": (resnet50, (1, 3, 224, 224), 2.5, 3)}
if QUICK:
    NETS = {name: (make, image, 0.01, 1) for name, (make, image, *_) in NETS.items()}


def session(model, image):
    """A call of a session on one thread, bound to its memory."""
    return onnxruntime_session(model, [numpy.random.default_rng(1).standard_normal(image).astype(numpy.float32)], 1, "float32")[0]


def seconds_of(call, seconds):
    count, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds or count == 0:
        call()
        count += 1
    return (now - begin) / count


def work(name, cores, barrier, results):
    """Puts the rates of all turns, or the error that ended them, which the reader would wait for otherwise."""
    try:
        put_rates(name, cores, barrier, results)
    except Exception as error:
        barrier.abort()
        results.put(error)


def put_rates(name, cores, barrier, results):
    os.sched_setaffinity(0, cores)
    make, image, seconds, turns = NETS[name]
    empty, net = session(nothing().SerializeToString(), (1,)), session(make().SerializeToString(), image)
    seconds_of(empty, seconds / 20)
    seconds_of(net, seconds / 20)
    for _ in range(turns):
        barrier.wait()
        overhead = seconds_of(empty, seconds / 5)
        barrier.wait()
        results.put(1 / (seconds_of(net, seconds) - overhead))


def rate(name, count, cores):
    """Images a second of `count` sessions at once, the best of several turns."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(count), context.Queue()
    workers = [context.Process(target=work, args=(name, cores, barrier, results)) for _ in range(count)]
    for w in workers:
        w.start()
    best = 0
    for _ in range(NETS[name][3]):
        turn = [results.get() for _ in range(count)]
        if errors := [rate for rate in turn if isinstance(rate, Exception)]:
            raise SystemExit(f"a session of {name}: {errors[0]!r}")
        best = max(best, sum(turn))
    for w in workers:
        w.join()
    return best


def proportional_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def further_session(name, sessions):
    make, image, *_ = NETS[name]
    model, kept = make().SerializeToString(), []
    for count in (2, sessions):
        before = proportional_bytes()
        for _ in range(count):
            kept.append(session(model, image))
            kept[-1]()
    return (proportional_bytes() - before) / sessions


if __name__ == "__main__":
    cores = sorted(os.sched_getaffinity(0))[:2]
    said = {"version": onnxruntime.__version__}
    if "memory" in sys.argv:
        said["bytes"] = {"LeNet": further_session("LeNet", 2 if QUICK else SESSIONS), "ResNet-50": further_session("ResNet-50", 1 if QUICK else 4)}
    else:
        said["images_per_second"] = {name: {str(n): rate(name, n, cores) for n in (1, 2, 4, 8)} for name in NETS}
    print(json.dumps(said))
