"""How far results are from what is expected of them: difference.py --results FILE... --expected FILE..., .npy files.

Prints JSON: `largest`, that of the tests of ONNX models (tests/onnx/models.py); `mean`, the root of the mean square of differences
over that of what is expected, of the output where it is largest."""
import argparse
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "onnx"))
from models import difference  # noqa: E402


def mean_difference(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    size = numpy.sqrt(numpy.mean(numpy.square(b))) if b.size else 0
    return float(numpy.sqrt(numpy.mean(numpy.square(a - b))) / size) if size else float(numpy.any(a != b))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", nargs="+")
    parser.add_argument("--expected", nargs="+")
    a = parser.parse_args()
    pairs = [(numpy.load(x), numpy.load(y)) for x, y in zip(a.results, a.expected, strict=True)]
    print(json.dumps({"largest": max(difference(x, y) for x, y in pairs), "mean": max(mean_difference(x, y) for x, y in pairs)}))


if __name__ == "__main__":
    main()
