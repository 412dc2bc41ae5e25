"""Two convolutions in OpenVINO for images of 400 shapes: what a run for another shape takes beyond one that stays with
its shape, in microseconds.  Its runtime cache has room for all of them.

usage: openvino_shapes.py CORE [--quick]

The driver is Python: what a call of it costs is on both sides of each difference.  Prints JSON."""
import json
import os
import sys
import time

import numpy
import openvino
from openvino import opset13

MAKINGS, ROUNDS = (1, 1) if "--quick" in sys.argv else (5, 8)
IMAGES = [numpy.full((1, 3, 80 + i // 20, 80 + i % 20), 0.5, numpy.float32) for i in range(400)]


def convolutions():
    numbers = numpy.random.default_rng(1)

    def conv(x, channels, out):
        weights, bias = (opset13.constant(numbers.standard_normal(dims).astype(numpy.float32) * 0.1)
                         for dims in ((out, channels, 3, 3), (1, out, 1, 1)))
        return opset13.relu(opset13.add(opset13.convolution(x, weights, [1, 1], [1, 1], [1, 1], [1, 1]), bias))

    x = opset13.parameter(openvino.PartialShape([1, 3, -1, -1]), numpy.float32, name="x")
    return openvino.Model([conv(conv(x, 3, 8), 8, 8)], [x], "convolutions")


def measured(core):
    tensors = [openvino.Tensor(image) for image in IMAGES]
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    unmet, met, same = ([1e9] * len(IMAGES) for _ in range(3))
    for _ in range(MAKINGS):
        request = core.compile_model(convolutions(), "CPU", options).create_infer_request()

        def timed(i):
            IMAGES[i].sum()
            begin = time.perf_counter()
            request.set_input_tensor(tensors[i])
            request.infer()
            return 1e6 * (time.perf_counter() - begin)

        for turn in range(ROUNDS + 1):
            first = met if turn else unmet
            for i in range(len(IMAGES)):
                first[i] = min(first[i], timed(i))
                same[i] = min(same[i], timed(i))

    def beyond(times):
        return sum(a - b for a, b in zip(times, same)) / len(IMAGES)

    return {"met": beyond(met), "unmet": beyond(unmet)}


if __name__ == "__main__":
    os.sched_setaffinity(0, [int(sys.argv[1])])
    print(json.dumps({"version": openvino.__version__.split("-")[0], **measured(openvino.Core())}))
