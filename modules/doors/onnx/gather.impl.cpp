// Operators that select elements by position.
module lamina.onnx:gather.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

void gather(node_call& c) { c.give(0, lamina::gather(c[0], c.positions(1), c.axis(c.integer("axis", 0), c.rank(0)))); }

constexpr converter_entry entries[] = {
    {"Gather", 1, gather},
};

}  // namespace

converter_list gather_converters() { return entries; }

}  // namespace lamina::onnx
