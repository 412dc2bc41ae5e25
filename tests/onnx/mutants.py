#!/usr/bin/env python3
"""Runs the tool on damaged models: it must load the model, or exit with 2 or 3 and one line that names the file.

  mutants.py FOLDER --tool build/release/lamina [--count 500] [--seed 1] [--keep DIR]

FOLDER contains models (*.onnx, at any depth). A third of the mutants are truncated, a third have changed bytes, and a third, which
need the package onnx, have changed extents, element types, names, axes, operators and attributes. Each run may take at most a
minute and 4 GiB of memory. Mutants that fail the test are kept in DIR.
"""
import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import onnx
except ImportError:
    onnx = None

SECONDS, BYTES = 60, 4 << 30
INTEGERS = [0, 1, 2, 3, -1, -2, 7, 100, 65536, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63)]
NAMES = ['', 'x', 'y', 'no such', 'new\nline', '\x1b[31m', '\u00e9', 'a' * 5000]


def models_in(folder):
    found = []
    for at, _, files in os.walk(folder):
        found += [os.path.join(at, f) for f in files if f.endswith('.onnx')]
    return sorted(f for f in found if os.path.getsize(f) < 1 << 20)


def truncated(data, r):
    return data[:r.randrange(len(data))]


def flipped(data, r):
    made = bytearray(data)
    for _ in range(r.choice([1, 1, 1, 2, 5, 20])):
        made[r.randrange(len(made))] = r.choice([0, 255, 127, 128, r.randrange(256)])
    return bytes(made)


def nodes_in(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            if a.HasField('g'):
                yield from nodes_in(a.g)


def change_value(v, r):
    t = v.type.tensor_type
    what = r.randrange(4)
    if what == 0:
        t.elem_type = r.choice([0, 1, 7, 8, 9, 10, 11, 14, 16, 99])
    elif what == 1 and t.shape.dim:
        r.choice(list(t.shape.dim)).dim_value = r.choice(INTEGERS)
    elif what == 2:
        t.shape.dim.add().dim_value = r.choice(INTEGERS)
    else:
        v.name = r.choice(NAMES)


def change_tensor(t, r):
    what = r.randrange(4)
    if what == 0 and t.dims:
        t.dims[r.randrange(len(t.dims))] = r.choice(INTEGERS)
    elif what == 1:
        t.dims.append(r.choice(INTEGERS))
    elif what == 2:
        t.data_type = r.choice([0, 1, 6, 7, 8, 9, 10, 11, 21, 99])
    elif t.data_type == onnx.TensorProto.INT64:
        n = max(1, len(t.raw_data) // 8)
        t.ClearField('int64_data')
        t.raw_data = b''.join(r.choice(INTEGERS).to_bytes(8, 'little', signed=True) for _ in range(n))
    else:
        t.raw_data = t.raw_data[1:]


def change_attribute(a, r):
    what = r.randrange(3)
    if what == 0:
        a.type = r.randrange(16)
    elif a.type == onnx.AttributeProto.INT:
        a.i = r.choice(INTEGERS)
    elif a.type == onnx.AttributeProto.INTS:
        if a.ints and what == 1:
            a.ints[r.randrange(len(a.ints))] = r.choice(INTEGERS)
        else:
            a.ints.append(r.choice(INTEGERS))
    elif a.type == onnx.AttributeProto.FLOAT:
        a.f = r.choice([float('nan'), float('inf'), -1.0, 0.0, 1e38])
    elif a.type == onnx.AttributeProto.STRING:
        a.s = r.choice([b'', b'no such', b'\xff\n'])
    elif a.type == onnx.AttributeProto.TENSOR:
        change_tensor(a.t, r)
    else:
        a.name = r.choice(NAMES)


def change_node(n, nodes, r):
    what = r.randrange(8)
    if what == 0 and n.input:
        n.input[r.randrange(len(n.input))] = r.choice(NAMES + [i for m in nodes for i in m.input])
    elif what == 1 and n.output:
        n.output[r.randrange(len(n.output))] = r.choice(NAMES)
    elif what == 2:
        n.op_type = r.choice([m.op_type for m in nodes] + ['Relu', 'Add', 'Reshape', 'Concat', 'Loop', 'Gather', 'no such'])
    elif what == 3:
        n.domain = r.choice(['', 'no.such', 'com.microsoft', 'ai.onnx.ml'])
    elif what == 4 and n.input:
        del n.input[r.randrange(len(n.input))]
    elif what == 5:
        n.input.append(r.choice(NAMES + [i for m in nodes for i in m.input]))
    elif n.attribute:
        change_attribute(r.choice(list(n.attribute)), r)
    else:
        a = n.attribute.add()
        a.name, a.type, a.i = r.choice(['axis', 'axes', 'perm', 'to']), onnx.AttributeProto.INT, r.choice(INTEGERS)


def edited(data, r):
    m = onnx.load_model_from_string(data)
    for _ in range(r.choice([1, 1, 2, 3])):
        g = m.graph
        nodes = list(nodes_in(g))
        what = r.randrange(10)
        if what < 5 and nodes:
            change_node(r.choice(nodes), nodes, r)
        elif what < 7 and g.initializer:
            change_tensor(r.choice(list(g.initializer)), r)
        elif what == 7 and m.opset_import:
            r.choice(list(m.opset_import)).version = r.choice([1, 5, 7, 9, 11, 13, 18, 30, 1 << 62])
        elif g.input or g.output:
            change_value(r.choice(list(g.input) + list(g.output)), r)
    return m.SerializeToString()


def limit(memory=None):
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ask(command, path, memory=None):
    """Runs a command on a file. Returns what is wrong with the result, or nothing, and the exit code. `memory`: limit in bytes."""
    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, preexec_fn=lambda: limit(memory))
        status, used = 0, None
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > 2 * SECONDS:
                child.kill()
                os.wait4(child.pid, 0)
                return 'takes longer than %d s' % (2 * SECONDS), -1
            time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode('utf-8', 'replace')
    code = child.returncode
    if code not in (0, 2, 3):
        return 'ends with %d: %s' % (code, text[:300]), code
    if used.ru_maxrss * 1024 > BYTES:
        return 'takes %d MiB' % (used.ru_maxrss >> 10), code
    if memory and code == 2 and text == 'lamina: out of memory\n':
        return '', code
    if code and (text.count('\n') != 1 or os.path.basename(path) not in text):
        return 'says not one line that names the file: %r' % text[:300], code
    if any(ord(c) < 32 and c != '\n' for c in text):
        return 'says control characters: %r' % text[:300], code
    return '', code


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('folder')
    p.add_argument('--tool', required=True)
    p.add_argument('--count', type=int, default=500)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--keep')
    a = p.parse_args()
    models = models_in(a.folder)
    if not models:
        sys.exit('mutants.py: no models in ' + a.folder)
    kinds = [truncated, flipped] + ([edited] if onnx else [])
    counts, wrong = {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(a.count):
            r = random.Random('%d/%d' % (a.seed, i))
            with open(r.choice(models), 'rb') as f:
                data = f.read()
            how = kinds[i % len(kinds)]
            path = os.path.join(scratch, 'mutant_%d.onnx' % i)
            try:
                made = how(data, r)
            except (ValueError, TypeError):
                continue  # the package onnx cannot write it
            with open(path, 'wb') as f:
                f.write(made)
            why, code = ask([a.tool, 'show', path], path)
            counts[code] = counts.get(code, 0) + 1
            if why:
                wrong += 1
                print('mutant_%d.onnx (%s): %s' % (i, how.__name__, why))
                if a.keep:
                    os.makedirs(a.keep, exist_ok=True)
                    shutil.copy(path, a.keep)
            os.unlink(path)
    print('%d mutants: %s; %d wrong' % (sum(counts.values()),
                                        ', '.join('%d end with %d' % (n, c) for c, n in sorted(counts.items())), wrong))
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
