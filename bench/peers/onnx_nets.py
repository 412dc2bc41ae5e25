#!/usr/bin/env python3
"""Models that benchmarks compare with, as ONNX. Their weights are random and differ from each other: equal constants would be
merged.

    onnx_nets.py FOLDER NAME...   writes FOLDER/NAME/model.onnx, its inputs, input_<i>.npy, and further ones of the first input,
                                  sample_<i>.npy
    onnx_nets.py --inputs MODEL   prints the names of a model's inputs as JSON

It takes Python with numpy and onnx."""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 4


class Net:
    """A graph that grows by one node after the other."""

    def __init__(self, name, *shapes):
        self.rng = np.random.default_rng(1)
        self.name, self.nodes, self.weights = name, [], []
        names = ["input"] if len(shapes) == 1 else [f"input_{i}" for i in range(len(shapes))]
        self.inputs = [helper.make_tensor_value_info(*one) for one in zip(names, [TensorProto.FLOAT] * len(shapes), shapes)]

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def weight(self, shape, fan):
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, kernel, stride=1, pad=0, groups=1):
        each = inputs // groups
        return self.add("Conv", x, self.weight((outputs, each, kernel, kernel), each * kernel * kernel / 2),
                        self.weight((outputs,), 100), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                        group=groups)

    def gemm(self, x, inputs, outputs):
        return self.add("Gemm", x, self.weight((outputs, inputs), inputs), self.weight((outputs,), 100), transB=1)

    def linear(self, x, inputs, outputs):
        """A product of each row of a tensor of any rank."""
        return self.add("Add", self.add("MatMul", x, self.weight((inputs, outputs), inputs)), self.weight((outputs,), 100))

    def reshape(self, x, *shape):
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def model(self, *shape):
        """The model whose output, of this shape, is the last node's."""
        self.nodes[-1].output[0] = "output"
        graph = helper.make_graph(self.nodes, self.name, self.inputs,
                                  [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made)
        return made


def lenet():
    net = Net("lenet", [1, 1, 28, 28])
    x = net.add("Relu", net.conv("input", 1, 6, 5, pad=2))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Relu", net.conv(x, 6, 16, 5))
    x = net.add("Flatten", net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    x = net.add("Relu", net.gemm(x, 400, 120))
    net.gemm(net.add("Relu", net.gemm(x, 120, 84)), 84, 10)
    return net.model(1, 10)


def mlp():
    net = Net("mlp", [1, 784])
    net.gemm(net.add("Relu", net.gemm("input", 784, 256)), 256, 10)
    return net.model(1, 10)


def resnet50():
    """Batch norms are folded, as peers do it themselves."""
    net = Net("resnet50", [1, 3, 224, 224])
    x, channels = net.add("Relu", net.conv("input", 3, 64, 7, 2, 3)), 64
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            step = stride if k == 0 else 1
            y = net.add("Relu", net.conv(x, channels, width, 1))
            y = net.conv(net.add("Relu", net.conv(y, width, width, 3, step, 1)), width, 4 * width, 1)
            if k == 0:
                x = net.conv(x, channels, 4 * width, 1, step)
            x, channels = net.add("Relu", net.add("Add", y, x)), 4 * width
    net.gemm(net.add("Flatten", net.add("GlobalAveragePool", x)), 2048, 1000)
    return net.model(1, 1000)


def mobilenet_v2():
    net = Net("mobilenet_v2", [1, 3, 224, 224])
    bounds = [net.number(0), net.number(6)]

    def relu6(x):
        return net.add("Clip", x, *bounds)

    x, channels = relu6(net.conv("input", 3, 32, 3, 2, 1)), 32
    for factor, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                           (6, 160, 3, 2), (6, 320, 1, 1)]:
        for k in range(count):
            wide, step, y = channels * factor, stride if k == 0 else 1, x
            if factor > 1:
                y = relu6(net.conv(y, channels, wide, 1))
            y = net.conv(relu6(net.conv(y, wide, wide, 3, step, 1, wide)), wide, outputs, 1)
            x = net.add("Add", x, y) if step == 1 and channels == outputs else y
            channels = outputs
    x = net.add("GlobalAveragePool", relu6(net.conv(x, 320, 1280, 1)))
    net.gemm(net.add("Flatten", x), 1280, 1000)
    return net.model(1, 1000)


def encoder(name, layers, width, heads, hidden, length=128):
    """A transformer of BERT's kind on embedded tokens, as exporters of PyTorch write it."""
    net, each = Net(name, [1, length, width]), width // heads

    def normalized(x):
        return net.add("LayerNormalization", x, net.weight((width,), 1), net.weight((width,), 100), axis=-1, epsilon=1e-12)

    x = "input"
    for _ in range(layers):
        q, k, v = (net.add("Transpose", net.reshape(net.linear(x, width, width), 1, length, heads, each), perm=perm)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = net.add("Div", net.add("MatMul", q, k), net.number(np.sqrt(each)))
        y = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = normalized(net.add("Add", net.linear(net.reshape(y, 1, length, width), width, width), x))
        y = net.linear(x, width, hidden)
        erf = net.add("Erf", net.add("Div", y, net.number(np.sqrt(2))))
        y = net.add("Mul", net.add("Mul", y, net.add("Add", erf, net.number(1))), net.number(0.5))
        x = normalized(net.add("Add", net.linear(y, hidden, width), x))
    return net.model(1, length, width)


def attention(length, heads=12, each=32):
    """Softmax of scaled products of queries and keys, times values."""
    net = Net(f"attention_{length}", *[[1, heads, length, each]] * 3)
    scores = net.add("MatMul", "input_0", net.add("Transpose", "input_1", perm=[0, 1, 3, 2]))
    weights = net.add("Softmax", net.add("Mul", scores, net.number(each**-0.5)), axis=-1)
    net.add("MatMul", weights, "input_2")
    return net.model(1, heads, length, each)


def lstm():
    steps, features, hidden = 28, 28, 64
    net = Net("lstm", [steps, 1, features])
    h = net.add("LSTM", "input", net.weight((1, 4 * hidden, features), features),
                net.weight((1, 4 * hidden, hidden), hidden), net.weight((1, 8 * hidden), 100), outputs=3,
                hidden_size=hidden)[1]
    net.gemm(net.reshape(h, 1, hidden), hidden, 10)
    return net.model(1, 10)


NETS = {"lenet": lenet, "mlp": mlp, "resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "lstm": lstm,
        **{f"attention_{length}": lambda length=length: attention(length) for length in (16, 128, 512)},
        "minilm": lambda: encoder("minilm", 6, 384, 12, 1536), "bert_tiny": lambda: encoder("bert_tiny", 2, 128, 2, 512)}


def nothing():
    """A model that gives its input, a number: what a call costs."""
    net = Net("nothing", [1])
    net.add("Identity", "input")
    return net.model(1)


def extents_of(value):
    return [d.dim_value for d in value.type.tensor_type.shape.dim]


def main():
    folder, *names = sys.argv[1:]
    if folder == "--inputs":
        graph = onnx.load(names[0], load_external_data=False).graph
        known = {weight.name for weight in graph.initializer}
        print(json.dumps([value.name for value in graph.input if value.name not in known]))
        return
    for name in names:
        into = pathlib.Path(folder) / name
        into.mkdir(parents=True, exist_ok=True)
        made = NETS[name]()
        onnx.save(made, into / "model.onnx")
        rng = np.random.default_rng(2)
        first, *others = (extents_of(value) for value in made.graph.input)
        files = [(f"input_{i}", shape) for i, shape in enumerate([first, *others])] + [(f"sample_{i}", first) for i in range(SAMPLES)]
        for file, shape in files:
            np.save(into / f"{file}.npy", rng.random(shape, dtype=np.float32))


if __name__ == "__main__":
    main()
