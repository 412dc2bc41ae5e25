#!/usr/bin/env python3
"""Models of one operator each, in the sizes of real networks, and their times in ONNX Runtime.

    onnx_operators.py FOLDER [--quick]              writes FOLDER/<number>.onnx, inputs, and FOLDER/list.json
    onnx_operators.py FOLDER --family NAME --expected RESULTS --threads N --seconds S
                                                    measures the models of a family; prints JSON: seconds by title

A model whose results are not those in RESULTS/<number>/ is left out: its time means nothing."""
import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


class Operators:
    """A list of models that grows by one operator after the other."""

    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.all = []

    def weight(self, *shape):
        return (self.rng.standard_normal(shape) * 0.05).astype(np.float32)

    def add(self, family, title, op, inputs, constants=(), outputs=1, opset=OPSET, **attributes):
        """A model of one node; `inputs`: shapes of floats, or arrays of positions; `constants`: arrays, None for a missing operand."""
        self.add_nodes(family, title, [(op, constants, outputs, attributes)], inputs, opset)

    def add_nodes(self, family, title, chain, inputs, opset=OPSET):
        """The same for a chain: the first node takes the inputs, each other one the result before it."""
        nodes, initializers, arrays, infos = [], [], [], []
        for i, one in enumerate(inputs):
            array = one if isinstance(one, np.ndarray) else (self.rng.random(one, np.float32) * 0.9 + 0.05)
            arrays.append(array)
            infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        before = [f"x{i}" for i in range(len(inputs))]
        for number, (op, constants, outputs, attributes) in enumerate(chain):
            operands = list(before)
            for array in constants:
                operands.append("" if array is None else f"c{len(initializers)}")
                if array is not None:
                    initializers.append(numpy_helper.from_array(np.asarray(array), operands[-1]))
            before = [f"y{number}_{i}" for i in range(outputs)]
            nodes.append(helper.make_node(op, operands, before, **attributes))
        graph = helper.make_graph(nodes, "operator", infos, [helper.make_empty_tensor_value_info(name) for name in before], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        self.all.append((family, title, onnx.shape_inference.infer_shapes(model), arrays))


def convolutions(o):
    def conv(inputs, outputs, kernel, extents, stride=1, groups=1, dilation=1, batch=1):
        kernel, extents = [(x,) * 2 if isinstance(x, int) else x for x in (kernel, extents)]
        pads = [(k - 1) * dilation // 2 for k in kernel] * 2
        parts = [f"{'x'.join(map(str, kernel))} {inputs}->{outputs} @{'x'.join(map(str, extents))}"]
        parts += [f"{word} {value}" for word, value in (("stride", stride), ("groups", groups), ("dilation", dilation), ("batch", batch)) if value != 1]
        o.add("convolutions", ", ".join(parts), "Conv", [(batch, inputs, *extents)],
              [o.weight(outputs, inputs // groups, *kernel), o.weight(outputs)], kernel_shape=kernel, pads=pads, group=groups,
              strides=[stride] * len(kernel), dilations=[dilation] * len(kernel))

    conv(64, 64, 3, 56), conv(3, 64, 7, 224, 2), conv(3, 16, 3, 224, 2), conv(16, 16, 3, 112, groups=16), conv(24, 72, 1, 56)
    conv(72, 72, 5, 56, 2, 72), conv(120, 120, 5, 28, groups=120), conv(240, 80, 1, 14), conv(960, 160, 1, 7), conv(512, 512, 3, 7)
    conv(256, 256, 3, 14, 2), conv(128, 128, 3, 28, groups=32), conv(96, 96, 7, 56, groups=96), conv(64, 64, 3, 56, dilation=2)
    conv(64, 64, 5, 28), conv(8, 8, 3, 128), conv(1, 8, 5, 64), conv(32, 2, 1, 256), conv(64, 255, 1, 52), conv(128, 12, 1, 56)
    conv(2048, 1000, 1, 1), conv(64, 64, 3, 28, batch=8), conv(192, 192, 3, 14, groups=192, batch=4)
    conv(1, 64, (16,), (16000,)), conv(64, 64, (3,), (1000,), dilation=4), conv(256, 256, (7,), (500,)), conv(256, 256, (31,), (200,), groups=256)
    conv(16, 32, (3, 3, 3), (16, 28, 28)), conv(32, 32, (3, 3, 3), (16, 28, 28), groups=32)
    for inputs, outputs, kernel, extent, stride, pad in ((64, 32, 4, 28, 2, 1), (128, 64, 2, 32, 2, 0), (256, 128, 3, 14, 2, 1), (32, 3, 4, 64, 2, 1)):
        o.add("convolutions", f"transposed {kernel}x{kernel} {inputs}->{outputs} @{extent}x{extent}, stride {stride}", "ConvTranspose",
              [(1, inputs, extent, extent)], [o.weight(inputs, outputs, kernel, kernel)], kernel_shape=[kernel] * 2, strides=[stride] * 2,
              pads=[pad] * 4)


def products(o):
    for m, k, n in ((1, 512, 512), (1, 784, 256), (1, 2048, 1000), (1, 4096, 1000), (2, 768, 768), (5, 384, 1536), (16, 64, 64), (50, 768, 3072),
                    (64, 1000, 1000), (197, 768, 2304), (300, 7, 5000), (1000, 3, 64), (1024, 64, 3), (1, 32000, 16), (1, 16, 32000)):
        o.add("products", f"{m}x{k} by {k}x{n}", "Gemm", [(m, k)], [o.weight(n, k), o.weight(n)], transB=1)
    for batch, m, k, n in ((12, 128, 32, 128), (12, 128, 128, 32), (64, 8, 16, 8), (256, 1, 64, 64), (1000, 3, 3, 3), (96, 49, 32, 49)):
        o.add("products", f"{batch} of {m}x{k} by {k}x{n}", "MatMul", [(batch, m, k), (batch, k, n)])
    o.add("products", "einsum bhid,bhjd->bhij", "Einsum", [(1, 12, 128, 32)] * 2, equation="bhid,bhjd->bhij")


def elementwise(o):
    tensor = (8, 64, 1024)
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Gelu", "HardSwish", "Mish", "Softplus", "Sin", "Cos", "Abs", "Floor",
               "Round", "Reciprocal", "Elu", "Selu", "LeakyRelu", "Softsign", "Sign", "Atan"):
        o.add("functions of elements", op, op, [tensor])
    for op in ("Add", "Mul", "Div", "Pow", "Max"):
        for name, other in (("", tensor), (", a row", (1024,)), (", a column", (64, 1))):
            o.add("functions of elements", f"{op}{name}", op, [tensor, other])
    o.add("functions of elements", "Mod", "Mod", [tensor, tensor], fmod=1)
    o.add_nodes("functions of elements", "Cast to int32 and back", [("Cast", (), 1, {"to": to}) for to in (TensorProto.INT32, TensorProto.FLOAT)], [tensor])


def reductions(o):
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceProd", "ReduceLogSumExp"):
        for axes in ([2], [1], [0], [1, 2]):
            o.add("reductions", f"{op} along {axes}", op, [(16, 64, 512)], [np.array(axes, np.int64)], keepdims=0)
    o.add("reductions", "ArgMax of rows", "ArgMax", [(64, 1000)], axis=1)
    o.add("reductions", "ArgMax of channels", "ArgMax", [(1, 21, 128, 128)], axis=1)
    o.add("reductions", "TopK, 5 of 1000", "TopK", [(64, 1000)], [np.array([5], np.int64)], outputs=2)
    o.add("reductions", "TopK, 100 of 20000", "TopK", [(1, 20000)], [np.array([100], np.int64)], outputs=2)
    o.add("reductions", "CumSum", "CumSum", [(64, 1000)], [np.array(1, np.int64)])


def normalizations(o):
    for shape, axis in (((12, 128, 128), -1), ((16, 1000), -1), ((1, 50257), -1), ((8, 64, 128), 1), ((4096, 8), -1), ((1, 21, 64, 64), 1)):
        for op in ("Softmax", "LogSoftmax"):
            o.add("normalizations", f"{op} of {list(shape)} along {axis}", op, [shape], axis=axis)
    for shape in ((128, 384), (1, 128, 768), (1000, 64)):
        o.add("normalizations", f"LayerNormalization of {list(shape)}", "LayerNormalization", [shape], [o.weight(shape[-1]), o.weight(shape[-1])])
    image = (1, 64, 56, 56)
    o.add("normalizations", "InstanceNormalization", "InstanceNormalization", [image], [o.weight(64), o.weight(64)])
    o.add("normalizations", "GroupNormalization", "GroupNormalization", [image], [o.weight(64), o.weight(64)], opset=21, num_groups=8)
    o.add("normalizations", "BatchNormalization", "BatchNormalization", [image], [o.weight(64)] * 3 + [np.ones(64, np.float32)])
    o.add("normalizations", "LRN", "LRN", [image], size=5)


def pooling(o):
    for op, kernel, stride, pad in (("MaxPool", 2, 2, 0), ("MaxPool", 3, 2, 1), ("AveragePool", 2, 2, 0), ("AveragePool", 3, 1, 1), ("MaxPool", 5, 1, 2),
                                    ("AveragePool", 7, 7, 0)):
        o.add("pooling and resizing", f"{op} of {kernel}x{kernel}, stride {stride}", op, [(1, 64, 56, 56)], kernel_shape=[kernel] * 2,
              strides=[stride] * 2, pads=[pad] * 4)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        o.add("pooling and resizing", op, op, [(1, 256, 28, 28)])
    for mode, coordinates in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel")):
        o.add("pooling and resizing", f"Resize to twice the size, {mode}, {coordinates}", "Resize", [(1, 32, 56, 56)],
              [None, np.array([1, 1, 2, 2], np.float32)], mode=mode, coordinate_transformation_mode=coordinates)
    o.add("pooling and resizing", "Resize to half the size", "Resize", [(1, 3, 480, 640)], [None, np.array([1, 1, 0.5, 0.5], np.float32)],
          mode="linear")
    o.add("pooling and resizing", "GridSample", "GridSample", [(1, 16, 64, 64), (1, 64, 64, 2)])


def movements(o):
    family = "movements of elements"
    for shape, order in (((64, 1000), (1, 0)), ((1, 64, 56, 56), (0, 2, 3, 1)), ((1, 56, 56, 64), (0, 3, 1, 2)), ((1, 128, 12, 32), (0, 2, 1, 3)),
                         ((12, 128, 32), (0, 2, 1)), ((8, 3, 224, 224), (0, 2, 3, 1)), ((8, 224, 224, 3), (0, 3, 1, 2)), ((4, 5, 6, 7, 8), (4, 2, 0, 3, 1))):
        o.add(family, f"Transpose of {list(shape)} to {list(order)}", "Transpose", [shape], perm=order)
    image = (1, 64, 56, 56)
    o.add(family, "Concat of channels", "Concat", [image, image], axis=1)
    o.add(family, "Concat of rows", "Concat", [(1, 64, 56, 32)] * 2, axis=3)
    o.add(family, "Slice, every second", "Slice", [image], [np.array(x, np.int64) for x in ([0, 0], [56, 56], [2, 3], [2, 2])])
    o.add(family, "Slice, the middle", "Slice", [image], [np.array(x, np.int64) for x in ([3, 3], [50, 50], [2, 3])])
    o.add(family, "Pad with zeros", "Pad", [image], [np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)])
    o.add(family, "Pad by reflection", "Pad", [image], [np.array([0, 0, 3, 3, 0, 0, 3, 3], np.int64)], mode="reflect")
    o.add(family, "Tile", "Tile", [(64, 64)], [np.array([8, 8], np.int64)])
    o.add(family, "Expand", "Expand", [(64, 1, 64)], [np.array([64, 64, 64], np.int64)])
    o.add(family, "Gather of columns", "Gather", [(64, 512), o.rng.integers(0, 512, 256)], axis=1)
    o.add(family, "GatherElements", "GatherElements", [(256, 512), o.rng.integers(0, 512, (256, 256))], axis=1)
    o.add(family, "DepthToSpace", "DepthToSpace", [image], blocksize=2)
    o.add(family, "SpaceToDepth", "SpaceToDepth", [image], blocksize=2)
    o.add(family, "NonZero", "NonZero", [(64, 1000)])


def recurrences(o):
    for op, hidden, inputs, steps, batch, direction in (
            ("LSTM", 64, 64, 50, 1, "forward"), ("LSTM", 256, 128, 100, 1, "bidirectional"), ("LSTM", 512, 512, 20, 1, "forward"),
            ("GRU", 64, 64, 50, 1, "forward"), ("GRU", 128, 128, 100, 8, "bidirectional"), ("RNN", 64, 64, 50, 4, "forward")):
        gates, directions = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1
        o.add("recurrences", f"{op} of {hidden}, {direction}, {steps} steps, batch {batch}", op, [(steps, batch, inputs)],
              [o.weight(directions, gates * hidden, inputs), o.weight(directions, gates * hidden, hidden), o.weight(directions, 2 * gates * hidden)],
              hidden_size=hidden, direction=direction, **({"linear_before_reset": 1} if op == "GRU" else {}))


FAMILIES = (convolutions, products, elementwise, reductions, normalizations, pooling, movements, recurrences)


def write(folder, quick):
    operators = Operators()
    for family in FAMILIES[:1 if quick else None]:
        family(operators)
    folder.mkdir(parents=True, exist_ok=True)
    known = []
    for number, (family, title, model, arrays) in enumerate(operators.all[:2 if quick else None]):
        onnx.save(model, folder / f"{number}.onnx")
        for i, array in enumerate(arrays):
            np.save(folder / f"{number}_x{i}.npy", array)
        known.append({"family": family, "title": title, "number": number, "inputs": len(arrays)})
    (folder / "list.json").write_text(json.dumps(known))


def measure(folder, family, expected, threads, seconds):
    import onnxruntime

    from difference import mean_difference
    from onnx_nets import nothing
    from onnx_runs import onnxruntime_session, seconds_of_runs

    empty, _ = onnxruntime_session(nothing().SerializeToString(), [np.zeros(1, np.float32)], threads, "float32")
    overhead = seconds_of_runs(empty, seconds)[0]
    said = {"version": onnxruntime.__version__.split("-")[0]}
    for one in json.loads((folder / "list.json").read_text()):
        if one["family"] != family:
            continue
        number = one["number"]
        inputs = [np.load(folder / f"{number}_x{i}.npy") for i in range(one["inputs"])]
        call, results = onnxruntime_session(str(folder / f"{number}.onnx"), inputs, threads, "float32")
        times = seconds_of_runs(call, seconds)
        files = sorted((expected / str(number)).glob("*.npy"))
        if all(mean_difference(np.load(ours), theirs) < 1e-3 for ours, theirs in zip(files, results())):
            said[one["title"]] = max(times[0] - overhead, 1e-9)
    print(json.dumps(said))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--family")
    parser.add_argument("--expected", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1)
    a = parser.parse_args()
    if a.family:
        measure(a.folder, a.family, a.expected, a.threads, a.seconds)
    else:
        write(a.folder, a.quick)


if __name__ == "__main__":
    sys.exit(main())
