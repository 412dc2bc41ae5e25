// Operators on sequences and optionals.
module lamina.onnx:sequence.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

value position(node_call& c, std::size_t i) { return c.cast_to(c[i], dtype::int64); }

void construct(node_call& c) {
  std::vector<value> all;
  for (std::size_t i = 0; i < c.size(); ++i) all.push_back(c[i]);
  if (all.empty()) c.fail("it has no operands");
  c.give(0, lamina::sequence_of(view<const value>(all)));
}
// The first insertion determines the type of its tensors.
void empty(node_call& c) { c.results[0].open_sequence = c.element("dtype", dtype::float32); }

// Operand 0; a sequence without tensors becomes one for tensors like `like`.
value sequence_for(node_call& c, const value& like) {
  if (!c.has(0) || !c.operand(0).open_sequence) return c[0];
  tensor_type of = like.type();
  for (int i = 0; i < of.dims.rank; ++i) of.dims[i] = dyn;
  if (of.element != *c.operand(0).open_sequence)
    c.fail("a tensor of ", of.element, " is inserted into a sequence of ", *c.operand(0).open_sequence);
  return lamina::sequence_empty(c.p, of);
}
void insert(node_call& c) {
  const value tensor = c[1], sequence = sequence_for(c, tensor);
  if (sequence.shape().rank != tensor.shape().rank)
    c.unsupported("a tensor of rank ", tensor.shape().rank, " is inserted into a ", sequence.type(),
                  "; all tensors of a sequence need the same rank");
  c.give(0, c.has(2) ? lamina::sequence_insert(sequence, tensor, position(c, 2))
                     : lamina::sequence_insert(sequence, tensor));
}
void erase(node_call& c) {
  c.give(0, c.has(1) ? lamina::sequence_erase(c[0], position(c, 1)) : lamina::sequence_erase(c[0]));
}
void at(node_call& c) { c.give(0, lamina::sequence_at(c[0], position(c, 1))); }
void length(node_call& c) {
  if (c.has(0) && c.operand(0).open_sequence) return c.give(0, any_tensor({dtype::int64, {}}));
  c.give(0, lamina::sequence_length(c[0]));
}
void concat(node_call& c) {
  c.give(0, lamina::concat_sequence(c[0], {.axis = c.integer("axis"), .new_axis = c.flag("new_axis")}));
}
void split(node_call& c) {
  const std::int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  const bool keepdims = c.flag("keepdims", true);
  if (!c.has(1)) return c.give(0, lamina::split_to_sequence(c[0], {.axis = axis, .keepdims = keepdims}));
  c.give(0, lamina::split_to_sequence(c[0], position(c, 1), {.axis = axis, .keepdims = keepdims}));
}
void map(node_call& c) {
  const graph_message& body = c.graph("body");
  std::vector<value> operands;
  std::vector<tensor_type> types;
  for (std::size_t i = 0; i < c.size(); ++i) {
    operands.push_back(c[i]);
    types.push_back(c.type(i));
    types.back().kind = value_kind::tensor;
  }
  auto inside = c.subgraphs({&body}, types)[0];
  operands.insert(operands.end(), inside.captured.begin(), inside.captured.end());
  const auto made = lamina::sequence_map(inside.body, view<const value>(operands));
  for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
}

void optional(node_call& c) {
  if (c.has(0)) return c.give(0, lamina::optional_of(c[0]));
  const auto* type = c.type_attribute("type");
  if (!type) c.fail("it has neither an operand nor attribute `type`");
  c.give(0, lamina::optional_none(c.p, c.type_in(*type)));
}
void has_element(node_call& c) {
  if (c.size() == 0) return c.give(0, any_tensor({dtype::boolean, {}}));
  c.give(0, lamina::optional_has_value(c[0]));
}
void get_element(node_call& c) { c.give(0, lamina::optional_value(c[0])); }

constexpr converter_entry entries[] = {
    {"ConcatFromSequence", 11, concat, false},
    {"Optional", 15, optional, false},
    {"OptionalGetElement", 15, get_element, false},
    {"OptionalHasElement", 15, has_element, false},
    {"SequenceAt", 11, at, false},
    {"SequenceConstruct", 11, construct, false},
    {"SequenceEmpty", 11, empty, false},
    {"SequenceErase", 11, erase, false},
    {"SequenceInsert", 11, insert, false},
    {"SequenceLength", 11, length, false},
    {"SequenceMap", 17, map, false},
    {"SplitToSequence", 11, split, false},
};

}  // namespace

converter_list sequence_converters() { return entries; }

}  // namespace lamina::onnx
