#!/usr/bin/env python3
"""Writes the backend test cases of the PyPI package `onnx` as folders.

    write_cases.py FOLDER

FOLDER/<kind>/<case>/ contains model.onnx, `tolerance` (relative and absolute), and test_data_set_<n>/ with input_<i>.pb and
output_<i>.pb, each a TensorProto, SequenceProto or OptionalProto as the model declares. FOLDER/version stores the version of the
package; if it equals the installed version, nothing is written.
"""
import pathlib
import shutil
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"


def message_of(x, type_proto, name):
    """The protobuf message of a value of a declared type."""
    if hasattr(x, "SerializeToString"):
        return x
    if type_proto.HasField("sequence_type"):
        return numpy_helper.from_list(x, name)
    if type_proto.HasField("optional_type"):
        return numpy_helper.from_optional(x, name)
    return numpy_helper.from_array(numpy.asarray(x), name)


def write_values(folder, kind, values, declared):
    for i, (x, d) in enumerate(zip(values, declared)):
        (folder / f"{kind}_{i}.pb").write_bytes(message_of(x, d.type, d.name).SerializeToString())


def write_node_case(case, folder):
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for n, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{n}"
        data.mkdir()
        write_values(data, "input", inputs, case.model.graph.input)
        write_values(data, "output", outputs, case.model.graph.output)


def write_light_case(path, folder):
    """Writes a large model with constant weights; its input rises evenly from 0 to 1, as in the package's own runner."""
    model = onnx.load(path)
    shutil.copy(path, folder / "model.onnx")
    data = folder / "test_data_set_0"
    data.mkdir()
    initializers = {i.name for i in model.graph.initializer}
    declared = [i for i in model.graph.input if i.name not in initializers]
    values = []
    for d in declared:
        shape = [e.dim_value if e.HasField("dim_value") else 1 for e in d.type.tensor_type.shape.dim]
        n = int(numpy.prod(shape))
        values.append((numpy.arange(n).reshape(shape) / n).astype(numpy.float32))
    write_values(data, "input", values, declared)
    for i in range(len(model.graph.output)):
        shutil.copy(path.with_name(f"{path.stem}_output_{i}.pb"), data / f"output_{i}.pb")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    to = pathlib.Path(sys.argv[1])
    version = to / "version"
    if version.exists() and version.read_text() == onnx.__version__:
        return
    shutil.rmtree(to, ignore_errors=True)

    def fresh(kind, name, rtol=1e-3, atol=1e-7):
        folder = to / kind / name
        folder.mkdir(parents=True)
        (folder / "tolerance").write_text(f"{rtol} {atol}\n")
        return folder

    for case in load_model_tests(kind="node"):
        write_node_case(case, fresh("node", case.name, case.rtol, case.atol))
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(data_dir=str(DATA), kind=kind):
            folder = fresh(kind, case.name, case.rtol, case.atol)
            shutil.copytree(case.model_dir, folder, dirs_exist_ok=True)
    for path in sorted((DATA / "light").glob("*.onnx")):
        write_light_case(path, fresh("light", path.stem))
    version.write_text(onnx.__version__)


main()
