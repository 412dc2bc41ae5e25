"""An ONNX model in ONNX Runtime or OpenVINO: seconds of loading, planning and the first run, of later runs, and bytes of memory.

    onnx_runs.py onnxruntime|openvino MODEL --inputs FILE... --threads N --seconds S [--results FOLDER] [--compute TYPE]

The driver is Python: what a call of it costs is measured with a model that gives its input, and subtracted. Inputs are .npy
files in the order of the model; --results writes result_<i>.npy. Prints JSON."""
import argparse
import json
import os
import pathlib
import time

import numpy

from onnx_nets import nothing


def resident_bytes():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def onnxruntime_session(model, inputs, threads, compute):
    """A call of a session that is bound to its memory, what gives the results of the last call, and a remark on its version."""
    import onnxruntime

    if compute != "float32":
        raise SystemExit(f"ONNX Runtime on the CPU computes in float32, not in {compute}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for x, array in zip(session.get_inputs(), inputs):
        binding.bind_cpu_input(x.name, array)
    for y in session.get_outputs():
        binding.bind_output(y.name)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu, ""


def beyond_avx2(compiled):
    """Kinds of layers for which OpenVINO, held to AVX2, takes kernels that ask the processor alone: MLAS and some of its own."""
    with open("/proc/cpuinfo") as lines:
        has_avx512 = any(" avx512f" in line for line in lines if line.startswith("flags"))
    if not has_avx512 or not os.environ.get("ONEDNN_MAX_CPU_ISA", "").startswith("AVX2"):
        return ""
    info = [op.get_rt_info() for op in compiled.get_runtime_model().get_ops()]
    wide = sorted({one["layerType"].astype(str) for one in info
                   if any(word in one["primitiveType"].astype(str) for word in ("avx512", "mlas"))})
    return f"AVX-512 in {', '.join(wide)}" if wide else ""


def openvino_request(model, inputs, threads, compute):
    """The same of an inference request."""
    import openvino

    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[compute],
               "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", options)
    request = compiled.create_infer_request()
    for i, array in enumerate(inputs):
        request.set_input_tensor(i, openvino.Tensor(array))
    return (request.infer, lambda: [request.get_output_tensor(i).data.copy() for i in range(len(compiled.outputs))],
            beyond_avx2(compiled))


def seconds_of_runs(call, seconds):
    """Sorted times of runs, five at least."""
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("onnxruntime", "openvino"))
    parser.add_argument("model")
    parser.add_argument("--inputs", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--compute", choices=("float32", "bfloat16"), default="float32")
    a = parser.parse_args()
    prepare = onnxruntime_session if a.peer == "onnxruntime" else openvino_request
    version = __import__(a.peer).__version__.split("-")[0]
    inputs = [numpy.load(file) for file in a.inputs]

    before, begin = resident_bytes(), time.perf_counter()
    call, results, remark = prepare(a.model, inputs, a.threads, a.compute)
    call()
    first = time.perf_counter() - begin
    memory = resident_bytes() - before
    if a.results:
        a.results.mkdir(parents=True, exist_ok=True)
        for i, y in enumerate(results()):
            numpy.save(a.results / f"result_{i}.npy", y)

    empty, _, _ = prepare(nothing().SerializeToString(), [numpy.zeros(1, numpy.float32)], a.threads, a.compute)
    overhead = seconds_of_runs(empty, a.seconds / 5)
    times = seconds_of_runs(call, a.seconds)
    print(json.dumps({"version": f"{version}, {remark}" if remark else version, "first": first, "bytes": memory, "call": overhead[0],
                      "least": max(times[0] - overhead[0], 0), "median": max(times[len(times) // 2] - overhead[len(overhead) // 2], 0)}))


if __name__ == "__main__":
    main()
