#!/usr/bin/env python3
"""Hostile model files: each command of the tool must load the file, or exit with 2 or 3 and one line that names it.

  attacks.py FOLDER --tool build/release/lamina [--count 500] [--kind depth] [--seed 1] [--keep DIR]

FOLDER contains models (*.onnx, at any depth). Each kind of attack makes `count` files from them: lengths beyond the file, deep
nesting, cycles, duplicate names, references to undefined names, wrong types, negative and giant extents, weights outside of the
model's folder. A command may take at most a minute and 4 GiB of memory. Needs the package onnx.
"""
import argparse
import collections
import os
import random
import shutil
import sys
import tempfile

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    print('attacks.py: the package onnx is not here')
    sys.exit(77)

from mutants import BYTES, ask, models_in, nodes_in

GIANT = [1 << 20, 1 << 31, 1 << 32, 1 << 40, (1 << 40) + 1, 1 << 62, (1 << 63) - 1]
NEGATIVE = [-1, -2, -100, -(1 << 31), -(1 << 63)]


def varint(n):
    made = bytearray()
    while n > 127:
        made.append(n & 127 | 128)
        n >>= 7
    return bytes(made + bytes([n]))


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint_at(data, at, end):
    """The varint at `at`, and the position after it."""
    n, shift = 0, 0
    while at < end and shift < 64:
        byte = data[at]
        n |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return n, at


def fields_of(data, begin, end, depth=0):
    """Positions of length fields, including nested ones: (start of the length, start of the bytes, end of the bytes)."""
    found, at = [], begin
    while at < end:
        tag, at = varint_at(data, at, end)
        wire = tag & 7
        if wire == 0:
            while at < end and data[at] > 127:
                at += 1
            at += 1
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            place = at
            n, at = varint_at(data, at, end)
            if at + n > end:
                return found
            found.append((place, at, at + n))
            if depth < 6:
                found += fields_of(data, at, at + n, depth + 1)
            at += n
        else:
            return found
    return found


def lengths(m, r):
    data = m.SerializeToString()
    places = fields_of(data, 0, len(data))
    place, begin, end = r.choice(places)
    n = r.choice([end - begin + 1, len(data), len(data) + 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, 0])
    return data[:place] + varint(n) + data[begin:]


def depth(m, r):
    """Nested branches, nested types, nested function calls."""
    n = r.choice([3, 10, 50, 99, 101, 150, 500, 2000, 10000])
    what = r.randrange(4)
    if what == 0:  # If in If, by hand: the package has a recursion limit
        graph = field(1, field(1, b'x') + field(2, b'y') + field(4, b'Relu')) + field(2, b'g') + field(12, field(1, b'y'))
        for _ in range(n):
            branch = [field(5, field(1, name) + field(6, graph) + varint(20 << 3) + varint(5)) for name in (b'then_branch', b'else_branch')]
            if n > 12:
                branch = branch[:1]
            graph = (field(1, field(1, b'c') + field(2, b'y') + field(4, b'If') + b''.join(branch)) + field(2, b'g') + field(12, field(1, b'y')))
            if len(graph) > 1 << 20:
                break
        typed = field(2, field(1, varint(1 << 3) + varint(1) + field(2, field(1, varint(1 << 3) + varint(2)))))
        flag = field(2, field(1, varint(1 << 3) + varint(9) + field(2, b'')))
        graph += field(11, field(1, b'x') + typed) + field(11, field(1, b'c') + flag)
        return varint(1 << 3) + varint(8) + field(7, graph) + field(8, varint(2 << 3) + varint(17))
    if what == 1:
        kind = r.choice([4, 9])
        typed = field(1, varint(1 << 3) + varint(1))
        for _ in range(n):
            typed = field(kind, field(1, typed))
        graph = m.graph.SerializeToString() + field(11, field(1, b'deep') + field(2, typed))
        return varint(1 << 3) + varint(8) + field(7, graph) + field(8, varint(2 << 3) + varint(17))
    count = min(n, 500)
    for i in range(count):  # each calls the next one, once or twice
        nodes = [helper.make_node('f%d' % (i + 1), ['a'], ['b'], domain='own')] if i + 1 < count else [helper.make_node('Relu', ['a'], ['b'])]
        if what == 3 and i + 1 < count:
            nodes.append(helper.make_node('f%d' % (i + 1), ['b'], ['c'], domain='own'))
        m.functions.append(helper.make_function('own', 'f%d' % i, ['a'], [nodes[-1].output[0]], nodes,
                                                [helper.make_opsetid('', 17), helper.make_opsetid('own', 1)]))
    m.opset_import.append(helper.make_opsetid('own', 1))
    call(m, 'f0')
    return m.SerializeToString()


def call(m, function):
    """A node that calls a function of an input."""
    name = m.graph.input[0].name if m.graph.input else 'x'
    m.graph.node.append(helper.make_node(function, [name], ['called'], domain='own'))
    m.graph.output.append(helper.make_empty_tensor_value_info('called'))


def cycles(m, r):
    nodes = list(m.graph.node)
    what = r.randrange(4)
    if what == 0 and nodes:
        n = r.choice(nodes)
        if n.input:
            n.input[r.randrange(len(n.input))] = n.output[0]
    elif what == 1 and nodes:
        i = r.randrange(len(nodes))
        later = r.choice(nodes[i:])
        nodes[i].input.append(later.output[0])
    elif what == 2:
        count = r.choice([1, 2, 5])
        for i in range(count):
            m.functions.append(helper.make_function('own', 'f%d' % i, ['a'], ['b'], [helper.make_node('f%d' % ((i + 1) % count), ['a'], ['b'], domain='own')],
                                                    [helper.make_opsetid('', 17), helper.make_opsetid('own', 1)]))
        m.opset_import.append(helper.make_opsetid('own', 1))
        call(m, 'f0')
    else:
        shuffled = nodes[::-1] if r.randrange(2) else r.sample(nodes, len(nodes))
        del m.graph.node[:]
        m.graph.node.extend(shuffled)
        if nodes and m.graph.input and nodes[0].output:
            m.graph.input[0].name = nodes[-1].output[0]
    return m.SerializeToString()


def duplicates(m, r):
    g = m.graph
    lists = [g.input, g.output, g.initializer, g.node, g.value_info, m.opset_import, m.functions]
    lists += [n.attribute for n in nodes_in(g)]
    full = [some for some in lists if len(some)]
    if r.randrange(3) == 0 and g.node:
        names = [i.name for i in list(g.input) + list(g.initializer)] + [o for n in g.node for o in n.output]
        n = r.choice(list(g.node))
        n.output[r.randrange(len(n.output))] = r.choice(names)
    for _ in range(r.choice([1, 1, 2, 1000])):
        some = r.choice(full)
        some.add().CopyFrom(r.choice(list(some)))
    return m.SerializeToString()


def dangling(m, r):
    g = m.graph
    for _ in range(r.choice([1, 2])):
        what = r.randrange(6)
        nodes = list(nodes_in(g))
        if what == 0 and nodes:
            n = r.choice(nodes)
            if n.input:
                n.input[r.randrange(len(n.input))] = r.choice(['nowhere', '', 'a' * 100000, '\n', '\x1b[2J'])
        elif what == 1 and g.output:
            r.choice(list(g.output)).name = r.choice(['nowhere', '', '\x00'])
        elif what == 2 and g.node:
            del g.node[r.randrange(len(g.node))]
        elif what == 3 and g.initializer:
            del g.initializer[r.randrange(len(g.initializer))]
        elif what == 4 and g.input:
            del g.input[r.randrange(len(g.input))]
        elif nodes:
            n = r.choice(nodes)
            if n.output:
                n.output[r.randrange(len(n.output))] = r.choice(['nowhere', ''])
    return m.SerializeToString()


def types(m, r):
    g = m.graph
    for _ in range(r.choice([1, 1, 2])):
        what = r.randrange(4)
        nodes = [n for n in nodes_in(g) if n.attribute]
        if what == 0 and g.initializer:
            r.choice(list(g.initializer)).data_type = r.randrange(30)
        elif what == 1 and (g.input or g.output):
            r.choice(list(g.input) + list(g.output)).type.tensor_type.elem_type = r.randrange(30)
        elif what == 2 and nodes:
            r.choice(list(r.choice(nodes).attribute)).type = r.randrange(16)
        elif g.initializer:
            t = r.choice(list(g.initializer))
            if t.HasField('raw_data'):
                t.raw_data = t.raw_data[:r.randrange(len(t.raw_data) + 1)]
            else:
                t.raw_data = b'1234'
    return m.SerializeToString()


def change_numbers(m, r, numbers):
    g = m.graph
    for _ in range(r.choice([1, 1, 2, 3])):
        what = r.randrange(4)
        held = [a for n in nodes_in(g) for a in n.attribute if a.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)]
        shaped = [v for v in list(g.input) + list(g.output) if v.type.tensor_type.shape.dim]
        whole = [t for t in g.initializer if t.data_type == TensorProto.INT64]
        if what == 0 and shaped:
            r.choice(list(r.choice(shaped).type.tensor_type.shape.dim)).dim_value = r.choice(numbers)
        elif what == 1 and g.initializer:
            t = r.choice(list(g.initializer))
            if t.dims:
                t.dims[r.randrange(len(t.dims))] = r.choice(numbers)
        elif what == 2 and held:
            a = r.choice(held)
            if a.type == onnx.AttributeProto.INT:
                a.i = r.choice(numbers)
            elif a.ints:
                a.ints[r.randrange(len(a.ints))] = r.choice(numbers)
        elif whole:
            t = r.choice(whole)
            n = max(1, len(t.raw_data) // 8 or len(t.int64_data))
            t.ClearField('int64_data')
            t.raw_data = b''.join(r.choice(numbers + [1]).to_bytes(8, 'little', signed=True) for _ in range(n))


def negative(m, r):
    change_numbers(m, r, NEGATIVE)
    return m.SerializeToString()


def giant(m, r):
    """Huge extents from a few bytes; in a third of the files, computed by operators."""
    if r.randrange(3):
        change_numbers(m, r, GIANT)
        return m.SerializeToString()
    n, k = r.choice(GIANT + [100000]), r.choice([1, 2, 100000])
    size = helper.make_tensor('size', TensorProto.INT64, [2], [k, n])
    one = helper.make_tensor('one', TensorProto.INT64, [], [1])
    many = helper.make_tensor('many', TensorProto.INT64, [], [n])
    pads = helper.make_tensor('pads', TensorProto.INT64, [4], [0, n, 0, r.choice([0, n])])
    values = helper.make_tensor('values', TensorProto.FLOAT, [2], [0, 1])
    nodes = r.choice([
        [helper.make_node('ConstantOfShape', ['size'], ['y'])],
        [helper.make_node('Expand', ['values', 'size'], ['y'])],
        [helper.make_node('Range', ['zero', 'many', 'one'], ['y'])],
        [helper.make_node('Tile', ['x', 'size'], ['y'])],
        [helper.make_node('Pad', ['x', 'pads'], ['y'])],
        [helper.make_node('OneHot', ['one', 'many', 'values'], ['y'])],
        [helper.make_node('RandomNormal', [], ['y'], shape=[k, n])],
        [helper.make_node('EyeLike', ['big'], ['y'])],
        [helper.make_node('Resize', ['x', '', '', 'size'], ['y'])],
        [helper.make_node('ConstantOfShape', ['size'], ['a']), helper.make_node('NonZero', ['a'], ['b']), helper.make_node('MatMul', ['a', 'a'], ['y'])],
        [helper.make_node('Split', ['big'], ['y'] + ['y%d' % i for i in range(1, min(k, 3000))], axis=0)],
        [helper.make_node('TopK', ['big', 'many1'], ['y', 'z'])],
        [helper.make_node('HannWindow', ['many'], ['y'])],
        [helper.make_node('RoiAlign', ['maps', 'rois', 'one1'], ['y'], output_height=min(n, 1 << 40), output_width=k, sampling_ratio=min(k, 1 << 30))],
        [helper.make_node('Unsqueeze', ['one', 'many1'], ['y'])],
        [helper.make_node('CumSum', ['big', 'one'], ['y'])]])
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', TensorProto.FLOAT, [2, 3]),
                                           helper.make_tensor_value_info('big', TensorProto.FLOAT, [k, n]),
                                           helper.make_tensor_value_info('maps', TensorProto.FLOAT, [1, 1, 4, 4]),
                                           helper.make_tensor_value_info('rois', TensorProto.FLOAT, [1, 4])],
                              [helper.make_empty_tensor_value_info('y')],
                              [size, one, many, pads, values, helper.make_tensor('zero', TensorProto.INT64, [], [0]),
                               helper.make_tensor('many1', TensorProto.INT64, [1], [n]), helper.make_tensor('one1', TensorProto.INT64, [1], [0])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)]).SerializeToString()


def external(m, r):
    g = m.graph
    if not g.initializer:
        g.initializer.append(helper.make_tensor('w', TensorProto.FLOAT, [2], [1, 2]))
        g.node.append(helper.make_node('Identity', ['w'], ['of_w']))
        g.output.append(helper.make_empty_tensor_value_info('of_w'))
    for t in r.sample(list(g.initializer), min(len(g.initializer), r.choice([1, 2]))):
        for name in ('raw_data', 'float_data', 'int64_data', 'int32_data', 'double_data'):
            t.ClearField(name)
        t.data_location = TensorProto.EXTERNAL
        entries = [('location', r.choice(['../secret', '/etc/passwd', 'link', 'linked/secret', 'sub/../../secret', './../secret', '', '.', 'sub',
                                          'pipe', '/dev/zero', '/proc/self/mem', 'there', 'there', 'nowhere', 'a' * 5000, '..', 'there/x', 'th\x00ere']))]
        if r.randrange(2):
            entries.append(('offset', r.choice(['0', '4', '-1', '99999999999999999999', '1e3', '', '9223372036854775807', 'x'])))
        if r.randrange(2):
            entries.append(('length', r.choice(['0', '8', '-8', '4611686018427387904', '18446744073709551615', 'x'])))
        if r.randrange(4) == 0:
            t.dims.append(r.choice(GIANT))
        for key, value in entries:
            e = t.external_data.add()
            e.key, e.value = key, value
    return m.SerializeToString()


KINDS = (lengths, depth, cycles, duplicates, dangling, types, negative, giant, external)


def commands_of(tool, path, out):
    run = [tool, 'run', path]
    try:
        for v in onnx.load(path, load_external_data=False).graph.input:
            run += ['--value', v.name + '=1']
    except Exception:  # unreadable for the package
        pass
    return (run, [tool, 'show', path], [tool, 'bench', path, '--repeat', '1'], [tool, 'plan', path], [tool, 'export', path, out + '/made.onnx'],
            [tool, 'source', path, '--out', out + '/made.cppm'], [tool, 'bundle', path, '--name', 'made', '--out', out])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('folder')
    p.add_argument('--tool', required=True)
    p.add_argument('--count', type=int, default=500)
    p.add_argument('--kind', choices=[k.__name__ for k in KINDS])
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--keep')
    a = p.parse_args()
    models = models_in(a.folder)
    if not models:
        sys.exit('attacks.py: no models in ' + a.folder)
    wrong = 0
    for how in KINDS:
        if a.kind and how.__name__ != a.kind:
            continue
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as scratch:
            folder, out = scratch + '/models', scratch + '/out'
            os.makedirs(folder + '/sub')
            os.makedirs(out)
            for secret in (scratch + '/secret', folder + '/there'):
                with open(secret, 'wb') as f:
                    f.write(b'12345678' * 64)
            os.symlink('../secret', folder + '/link')
            os.symlink('..', folder + '/linked')
            os.mkfifo(folder + '/pipe')
            for i in range(a.count):
                r = random.Random('%d/%s/%d' % (a.seed, how.__name__, i))
                m = onnx.load(r.choice(models), load_external_data=False)
                try:
                    data = how(m, r)
                except (ValueError, TypeError, IndexError):
                    data = how(onnx.load(models[0], load_external_data=False), random.Random(i))
                path = folder + '/%s_%d.onnx' % (how.__name__, i)
                with open(path, 'wb') as f:
                    f.write(data)
                for command in commands_of(a.tool, path, out):
                    why, code = ask(command, path, BYTES)
                    counts[code] += 1
                    if why:
                        wrong += 1
                        print('%s, %s: %s' % (os.path.basename(path), command[1], why), flush=True)
                        if a.keep:
                            os.makedirs(a.keep, exist_ok=True)
                            shutil.copy(path, a.keep)
                os.unlink(path)
        print('%s: %d files, %d commands: %s' % (how.__name__, a.count, sum(counts.values()),
                                                 ', '.join('%d end with %d' % (n, c) for c, n in sorted(counts.items()))), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
