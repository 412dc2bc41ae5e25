"""check_written.py FOLDER: checks the models that `LAMINA_WRITTEN=FOLDER onnx_test --run_test=writer` has written.

Each must pass onnx.checker with shape inference, and in ONNX Runtime give the results that are stored beside it.
"""
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime


def arrays(model, kind):
    files = []
    while (file := model.with_name(f"{model.stem}.{kind}_{len(files)}.npy")).exists():
        files.append(np.load(file))
    return files


def difference(model):
    onnx.checker.check_model(str(model), full_check=True)
    if named := re.search(r"_opset(\d+)$", model.stem):
        written = [o.version for o in onnx.load(str(model)).opset_import if o.domain == ""]
        if written != [int(named[1])]:
            raise ValueError(f"opset {written}")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = dict(zip([i.name for i in session.get_inputs()], arrays(model, "input")))
    if not inputs:
        return 0.0
    worst = 0.0
    for got, expected in zip(session.run(None, inputs), arrays(model, "output"), strict=True):
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise ValueError(f"{got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}")
        a, b = got.astype(np.float64), expected.astype(np.float64)
        worst = max(worst, float(np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0)))
    return worst


def main():
    failed = 0
    for model in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
        try:
            worst = difference(model)
            wrong = not worst <= 1e-5
            print(f"{'wrong ' if wrong else 'passed'} {model.stem}: differs by {worst:.1e}")
        except Exception as e:  # any error of the checker or the runtime
            wrong = True
            print(f"wrong  {model.stem}: {e}")
        failed += wrong
    return 1 if failed else 0


sys.exit(main())
