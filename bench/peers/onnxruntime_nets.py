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
from onnx import TensorProto, helper

SESSIONS = 40
QUICK = "--quick" in sys.argv


def tensor(name, *dims):
    numbers = numpy.random.default_rng(len(name)).standard_normal(dims).astype(numpy.float32) * 0.1
    return helper.make_tensor(name, TensorProto.FLOAT, dims, numbers.tobytes(), raw=True)


def graph(nodes, weights, last, image=(1, 1, 28, 28)):
    made = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
                             [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def lenet():
    node = helper.make_node
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [node("Conv", ["x", "w1", "b1"], ["a"], pads=[2, 2, 2, 2]), node("Relu", ["a"], ["b"]), node("MaxPool", ["b"], ["c"], **pool),
             node("Conv", ["c", "w2", "b2"], ["d"]), node("Relu", ["d"], ["e"]), node("MaxPool", ["e"], ["f"], **pool), node("Flatten", ["f"], ["g"]),
             node("Gemm", ["g", "w3", "b3"], ["h"], transB=1), node("Relu", ["h"], ["i"]), node("Gemm", ["i", "w4", "b4"], ["j"], transB=1),
             node("Relu", ["j"], ["k"]), node("Gemm", ["k", "w5", "b5"], ["y"], transB=1)]
    weights = [tensor("w1", 6, 1, 5, 5), tensor("b1", 6), tensor("w2", 16, 6, 5, 5), tensor("b2", 16), tensor("w3", 120, 400), tensor("b3", 120),
               tensor("w4", 84, 120), tensor("b4", 84), tensor("w5", 10, 84), tensor("b5", 10)]
    return graph(nodes, weights, "y")


def resnet50():
    """Batch norms folded, as ONNX Runtime does it itself."""
    node, nodes, weights = helper.make_node, [], []

    def conv(x, channels, out, kernel, stride, relu=True):
        name = f"v{len(nodes)}"
        weights.extend([tensor(f"{name}_w", out, channels, kernel, kernel), tensor(f"{name}_b", out)])
        nodes.append(node("Conv", [x, f"{name}_w", f"{name}_b"], [name], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4))
        return activated(name) if relu else name

    def activated(x):
        nodes.append(node("Relu", [x], [f"v{len(nodes)}"]))
        return f"v{len(nodes) - 1}"

    x, channels = conv("x", 3, 64, 7, 2), 64
    nodes.append(node("MaxPool", [x], ["pooled"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    x = "pooled"
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            step = stride if i == 0 else 1
            y = conv(conv(conv(x, channels, width, 1, 1), width, width, 3, step), width, 4 * width, 1, 1, relu=False)
            if channels != 4 * width:
                x = conv(x, channels, 4 * width, 1, step, relu=False)
            nodes.append(node("Add", [x, y], [f"v{len(nodes)}"]))
            x, channels = activated(f"v{len(nodes) - 1}"), 4 * width
    nodes += [node("GlobalAveragePool", [x], ["means"]), node("Flatten", ["means"], ["row"]), node("Gemm", ["row", "fc_w", "fc_b"], ["y"], transB=1)]
    weights += [tensor("fc_w", 1000, 2048), tensor("fc_b", 1000)]
    return graph(nodes, weights, "y", [1, 3, 224, 224])


def nothing(image):
    return graph([helper.make_node("Identity", ["x"], ["y"])], [], "y", image)


# How to make each net, its images, the seconds of a turn and how many turns there are.
NETS = {"LeNet": (lenet, (1, 1, 28, 28), 0.5, 5), "ResNet-50": (resnet50, (1, 3, 224, 224), 2.5, 3)}
if QUICK:
    NETS = {name: (make, image, 0.01, 1) for name, (make, image, *_) in NETS.items()}


def session(model, image):
    """A call of a session on one thread, bound to its memory."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = made.io_binding()
    binding.bind_cpu_input("x", numpy.random.default_rng(1).standard_normal(image).astype(numpy.float32))
    binding.bind_output("y")
    return lambda: made.run_with_iobinding(binding)


def seconds_of(call, seconds):
    count, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds or count == 0:
        call()
        count += 1
    return (now - begin) / count


def work(name, cores, barrier, results):
    os.sched_setaffinity(0, cores)
    make, image, seconds, turns = NETS[name]
    empty, net = session(nothing(image), image), session(make(), image)
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
        best = max(best, sum(results.get() for _ in range(count)))
    for w in workers:
        w.join()
    return best


def proportional_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def further_session(name, sessions):
    make, image, *_ = NETS[name]
    model, kept = make(), []
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
