// Operators with graphs inside: If, Loop, Scan.
module lamina.onnx:control.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

void take(node_call& c, std::vector<known_value> results) {
  if (results.size() != c.results.size())
    c.fail("its graph has ", results.size(), " outputs, and ", c.results.size(), " are expected");
  c.results = std::move(results);
}

void if_(node_call& c) {
  const graph_message &then = c.graph("then_branch"), &otherwise = c.graph("else_branch");
  if (const auto known = c.known_integers(0); known && known->size() == 1)
    return take(c, c.inlined((*known)[0] != 0 ? then : otherwise));
  auto branches = c.subgraphs({&then, &otherwise}, {});
  std::vector<value> operands = branches[0].captured;
  if (operands.empty()) {
    // A conditional has an operand at least.
    operands.push_back(c[0]);
    for (auto& b : branches) b.body->input("predicate", c.type(0));
  }
  const auto made =
      lamina::cond(lamina::reshape(c[0], shape{}), branches[0].body, branches[1].body, view<const value>(operands));
  for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
}

constexpr converter_entry entries[] = {
    {"If", 1, if_, false},
};

}  // namespace

converter_list control_converters() { return entries; }

}  // namespace lamina::onnx
