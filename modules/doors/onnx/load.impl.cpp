module lamina.onnx:load.impl;
import lamina.onnx;
import :convert;
import :message;
import :scope;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

constexpr std::int64_t oldest_ir = 3, oldest_opset = 1;

// Finds initializers that determine shapes: starts at shape operands and follows the nodes that compute them backwards.
struct shape_operand {
  std::string_view op;
  std::size_t first, last;  // range of operands
};
constexpr shape_operand shape_operands[] = {
    {"Reshape", 1, 1},  {"Expand", 1, 1},   {"Slice", 1, 4},         {"Resize", 1, 3},          {"Tile", 1, 2},
    {"Pad", 1, 1},      {"Pad", 3, 3},      {"Range", 0, 2},         {"ConstantOfShape", 0, 0}, {"OneHot", 1, 1},
    {"TopK", 1, 1},     {"Upsample", 1, 1}, {"CenterCropPad", 1, 1}, {"AffineGrid", 1, 1},      {"Col2Im", 1, 2},
    {"MaxUnpool", 2, 2}};

void find_shape_constants(const graph_message& g, std::set<std::string_view>& found) {
  for (auto n = g.nodes.rbegin(); n != g.nodes.rend(); ++n) {
    const bool gives = std::any_of(n->outputs.begin(), n->outputs.end(), [&](auto o) { return found.contains(o); });
    for (std::size_t i = 0; i < n->inputs.size(); ++i) {
      bool decides = gives && n->op != "Shape" && n->op != "Size";
      for (const auto& s : shape_operands) decides = decides || (n->op == s.op && i >= s.first && i <= s.last);
      if (decides) found.insert(n->inputs[i]);
    }
    for (const auto& a : n->attributes)
      for (const auto& inner : a.graphs) find_shape_constants(*inner, found);
  }
}

void check(const model_message& m, const source& from) {
  text t;
  if (!m.graph) from.fail(t << "is not an ONNX model: it has no graph");
  if (m.ir_version < oldest_ir)
    detail::raise(error_kind::unsupported, t << printable(from.file, 1024) << ": IR version " << m.ir_version
                                             << "; expected " << oldest_ir << " or later");
  const auto opset = opset_of(m.opsets, "");
  if (opset != 0 && opset < oldest_opset)
    detail::raise(error_kind::unsupported, t << printable(from.file, 1024) << ": opset " << opset
                                             << " of ai.onnx; expected " << oldest_opset << " or later");
}

// Errors: value_error if a name given for shapes or values is no input, or occurs twice.
template <class Given> void check_names(const std::vector<Given>& all, const std::set<std::string_view>& inputs,
                                        std::string_view what, const source& from) {
  std::set<std::string_view> named;
  for (const auto& [name, given] : all) {
    text t;
    if (inputs.contains(name) && named.insert(name).second) continue;
    t << printable(from.file, 1024) << ": ";
    if (inputs.contains(name))
      detail::raise(error_kind::value, t << "input `" << printable(name) << "` has two " << what << "s; expected one");
    t << "the net has no input `" << printable(name) << "`; its inputs are ";
    const char* before = inputs.empty() ? "none" : "`";
    for (const auto& input : inputs) t << std::exchange(before, ", `") << printable(input) << "`";
    detail::raise(error_kind::value, inputs.empty() ? t << before : t);
  }
}

// Checks a value given for an input that becomes a constant. Errors: value_error if it does not match the input.
any_tensor checked(std::string_view name, const tensor_type& input, bool any_shape, const any_tensor& given,
                   const source& from) {
  if (given && input.is_tensor() && given.element() == input.element &&
      (any_shape || fits(input.dims, given.type().dims)))
    return given;
  text t;
  t << printable(from.file, 1024) << ": input `" << printable(name) << "` is " << input << "; the given value is ";
  if (given) t << given.type();
  else t << "empty";
  detail::raise(error_kind::value, t);
}
// A tensor of the input's type, filled with a number. Errors: value_error.
any_tensor filled_with(std::string_view name, const tensor_type& input, double number, const source& from) {
  text t;
  t << printable(from.file, 1024) << ": input `" << printable(name) << "` is " << input;
  if (!input.is_tensor() || !input.dims.is_static())
    detail::raise(error_kind::value, t << "; a single number needs known extents: give a shape too");
  constexpr std::size_t max = std::size_t(256) << 20;  // same limit as for folded results
  if (input.bytes() > max)
    detail::raise(error_kind::value, t << "; a single number fills at most 256 MiB: give a smaller shape");
  any_tensor made(input);
  bool exact = false;
  with_type(input.element, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      if constexpr (std::is_floating_point_v<T>) exact = true;
      else
        exact = number == std::floor(number) && number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                number < std::ldexp(1.0, std::numeric_limits<T>::digits);
      const T element = exact ? static_cast<T>(number) : T{};
      std::fill_n(reinterpret_cast<T*>(made.mutable_data()), made.bytes() / sizeof element, element);
    }
  });
  if (!exact) detail::raise(error_kind::value, t << "; the number " << number << " does not fit");
  return made;
}

// The type with its shape replaced by rank 0, also inside sequences and optionals.
type_message without_shape(type_message m) {
  m.has_shape = true;
  m.extents.clear();
  if (m.inner) m.inner = std::make_shared<const type_message>(without_shape(*m.inner));
  return m;
}

// The type of an input with the given shape. Errors: value_error if the file declares a conflicting shape.
tensor_type with_shape(const value_message& v, const shape& given, const source& from) {
  value_message open = v;
  open.type = without_shape(v.type);
  tensor_type type = type_of(open, from);
  type.dims = given;
  if (!v.type.has_shape) return type;
  if (const tensor_type declared = type_of(v, from); !fits(declared.dims, given)) {
    text t;
    detail::raise(error_kind::value, t << printable(from.file, 1024) << ": input `" << printable(v.name) << "` is "
                                       << declared.dims << "; the given shape is " << given);
  }
  return type;
}

// The given shapes with input names filled in. Errors: value_error for an unnamed shape if there are several inputs.
std::vector<std::pair<std::string, shape>> named_shapes(const read_options& o, const std::set<std::string_view>& inputs,
                                                        const source& from) {
  auto all = o.shapes;
  std::vector<std::string_view> open;  // inputs that remain inputs
  const auto is = [](std::string_view name) { return [=](const auto& given) { return given.first == name; }; };
  for (const auto& name : inputs)
    if (std::none_of(o.values.begin(), o.values.end(), is(name)) &&
        std::none_of(o.numbers.begin(), o.numbers.end(), is(name)))
      open.push_back(name);
  for (auto& [name, given] : all) {
    text t;
    if (!name.empty()) continue;
    if (open.size() != 1)
      detail::raise(error_kind::value, t << printable(from.file, 1024) << ": the shape " << given
                                         << " has no input name; expected one, since the net has " << open.size()
                                         << " inputs");
    name = open[0];
  }
  return all;
}

// Initializers that are also inputs are defaults; returns those that a given shape, value or number replaces.
std::set<std::string_view> replaced_defaults(const graph_message& g, const read_options& o) {
  std::set<std::string_view> given, inputs, replaced;
  for (const auto& [name, s] : o.shapes) given.insert(name);
  for (const auto& [name, v] : o.values) given.insert(name);
  for (const auto& [name, n] : o.numbers) given.insert(name);
  for (const auto& v : g.inputs) inputs.insert(v.name);
  for (const auto& t : g.initializers)
    if (given.contains(t.name) && inputs.contains(t.name)) replaced.insert(t.name);
  return replaced;
}

void read_inputs(const graph_message& g, scope& root, const read_options& o) {
  const source& from = root.context().from;
  std::set<std::string_view> initialized, inputs;
  for (const auto& t : g.initializers)
    if (!root.context().replaced.contains(t.name)) initialized.insert(t.name);
  const auto find = [](const auto& all, std::string_view name) {
    return std::find_if(all.begin(), all.end(), [&](const auto& given) { return given.first == name; });
  };
  // Old IR versions list initializers as inputs too.
  for (const auto& v : g.inputs)
    if (!initialized.contains(v.name)) inputs.insert(v.name);
  const auto shapes = named_shapes(o, inputs, from);
  check_names(shapes, inputs, "shape", from);
  check_names(o.values, inputs, "value", from);
  check_names(o.numbers, inputs, "value", from);
  for (const auto& v : g.inputs) {
    if (initialized.contains(v.name)) continue;
    const auto shaped = find(shapes, v.name);
    const auto valued = find(o.values, v.name);
    const auto numbered = find(o.numbers, v.name);
    value_message declared = v;
    if (valued != o.values.end() && !declared.type.has_shape) declared.type = without_shape(declared.type);
    const tensor_type type = shaped == shapes.end() ? type_of(declared, from) : with_shape(v, shaped->second, from);
    if (valued == o.values.end() && numbered == o.numbers.end()) {
      root.define(v.name, {.v = root.target().input(v.name, type)});
      continue;
    }
    const bool any_shape = !v.type.has_shape && shaped == shapes.end();
    root.define(v.name, {.data = numbered != o.numbers.end() ? filled_with(v.name, type, numbered->second, from)
                                                             : checked(v.name, type, any_shape, valued->second, from)});
  }
}

// Whether a result may have the shape that the file declares.
bool agree(const shape& is, const type_message& declared) {
  if (!declared.has_shape || !is.is_static()) return true;  // exporters declare wrong extents if shapes are computed
  if (declared.extents.size() != static_cast<std::size_t>(is.rank)) return false;
  for (int i = 0; i < is.rank; ++i) {
    const auto n = declared.extents[static_cast<std::size_t>(i)].number;
    if (n && *n >= 0 && is[i].is_number() && is.at(i) != *n) return false;
  }
  return true;
}

// Errors: if the output cannot have its declared type.
void check_declared(const value_message& v, const tensor_type& is, bool with_extents, const source& from) {
  const auto& declared = v.type;
  if (declared.is != type_message::form::tensor) return;
  text t;
  const auto element = element_of(declared.element);
  if (element && *element != is.element)
    from.fail(t << "output `" << printable(v.name) << "` is declared as " << *element << ", but is " << is);
  if (!with_extents || agree(is.dims, declared)) return;
  t << "output `" << printable(v.name) << "` is declared with the extents [";
  for (std::size_t i = 0; i < declared.extents.size() && i < 16; ++i) {
    const auto& e = declared.extents[i];
    t << (i ? ", " : "");
    if (e.number) t << *e.number;
    else t << printable(e.name);
  }
  from.fail(t << "], but is " << is);
}

void write_outputs(const graph_message& g, scope& root, const read_options& o) {
  std::vector<std::string_view> names;
  for (const auto& v : g.outputs) names.push_back(v.name);
  root.outputs(names);  // raises the error for a missing output
  for (const auto& declared : g.outputs) {
    const value v = as_result(root.value_of(*root.find(declared.name)));
    check_declared(declared, v.type(), o.shapes.empty() && o.values.empty() && o.numbers.empty(), root.context().from);
    root.target().output(declared.name, v);
  }
}

bool is_standard(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }
const own_operator* bound(const read_options& o, std::string_view domain, std::string_view op) {
  const auto at = std::find_if(o.own.begin(), o.own.end(), [&](const own_operator& b) {
    return b.op == op && (b.domain == domain || (is_standard(b.domain) && is_standard(domain)));
  });
  return at == o.own.end() ? nullptr : &*at;
}

// View of a node for the function of a custom operator.
class bound_node final : public own_node {
 public:
  explicit bound_node(node_call& c) : c_(c) {
    name = std::string(c.node.name);
    domain = std::string(c.node.domain);
    op = std::string(c.node.op);
    opset = c.opset;
    results = c.output_count();
    for (std::size_t i = 0; i < c.size(); ++i) operands.push_back(c.has(i) ? c[i] : value());
  }
  value operator[](std::size_t i) const override { return c_[i]; }
  bool has_attribute(std::string_view a) const override { return c_.has_attribute(a); }
  std::int64_t integer(std::string_view a, std::optional<std::int64_t> otherwise) const override {
    return otherwise ? c_.integer(a, *otherwise) : c_.integer(a);
  }
  double real(std::string_view a, std::optional<double> otherwise) const override {
    return c_.real(there(a, otherwise.has_value()), otherwise.value_or(0));
  }
  std::string string(std::string_view a, std::optional<std::string> otherwise) const override {
    return c_.string(there(a, otherwise.has_value()), otherwise.value_or(""));
  }
  std::vector<std::int64_t> integers(std::string_view a) const override { return c_.integers(there(a, false)); }
  std::vector<double> reals(std::string_view a) const override { return c_.reals(there(a, false)); }

 private:
  std::string_view there(std::string_view a, bool optional) const {
    if (!optional && !c_.has_attribute(a)) c_.fail("attribute `", a, "` is missing");
    return a;
  }
  node_call& c_;
};

// Converts a node if its operator is custom; returns whether it is.
bool convert_own(const read_options& o, node_call& c) {
  const own_operator* own = bound(o, c.node.domain, c.node.op);
  if (!own) return false;
  if (!own->convert) c.unsupported("the operator is bound to an empty function");
  const auto made = own->convert(bound_node(c));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    if (!c.has_output(i)) continue;
    if (i >= made.size() || made[i].empty())
      c.unsupported("its custom function returns no result ", i, ", `", printable(c.node.outputs[i]), "`");
    if (&made[i].owner() != &c.p) c.unsupported("its custom function returns a value of another program");
    c.give(i, made[i]);
  }
  return true;
}

using refused_node = std::function<void(const node_message&, std::int64_t opset, std::string_view why)>;
// Builds the net of a model. With `refused`, reports each unsupported node instead of failing; the result is then no
// usable net.
saved_net net_of(const model_message& m, source from, std::size_t file_bytes, const read_options& o,
                 const refused_node& refused = {}) {
  check(m, from);
  saved_net net;
  auto p = std::make_shared<program>();
  from.account->add(file_bytes);
  model_context context{std::move(from), m, net.states};
  context.file_bytes = file_bytes;
  if (!o.own.empty()) context.own = [&o](node_call& c) { return convert_own(o, c); };
  for (const auto& f : m.functions) context.functions[{f.domain, f.name, f.overload}] = &f;
  context.refused = refused;
  context.replaced = replaced_defaults(*m.graph, o);
  find_shape_constants(*m.graph, context.shape_constants);
  scope root(context, *p, m.opsets);
  root.read_initializers(*m.graph);
  read_inputs(*m.graph, root, o);
  root.run(m.graph->nodes);
  if (refused) return net;
  write_outputs(*m.graph, root, o);
  p->path = {};
  net.program = std::move(p);
  for (const auto& [key, value] : m.metadata) net.metadata[std::string(key)] = std::string(value);
  if (!m.producer.empty()) net.metadata["producer"] = std::string(m.producer);
  return net;
}

source source_of(const std::string& path) {
  auto folder = std::filesystem::path(path).parent_path().string();
  return {path, folder.empty() ? std::string(".") : folder};
}

void add_unsupported(const std::vector<node_message>& nodes, const std::vector<opset_message>& opsets,
                     const std::set<std::tuple<std::string_view, std::string_view, std::string_view>>& functions,
                     const read_options& o, std::vector<unsupported_node>& found) {
  for (const auto& n : nodes) {
    const bool is_function = functions.contains({n.domain, n.op, n.overload});
    const auto opset = opset_of(opsets, n.domain);
    if (!is_function && !bound(o, n.domain, n.op) &&
        !find_converter(is_standard(n.domain) ? std::string_view() : n.domain, n.op, opset))
      found.push_back(
          {std::string(n.name), std::string(n.domain), std::string(n.op), opset, std::string(unknown_operator)});
    for (const auto& a : n.attributes)
      for (const auto& g : a.graphs) add_unsupported(g->nodes, opsets, functions, o, found);
  }
}

std::vector<unsupported_node> unsupported_in(const model_message& m, const read_options& o) {
  std::vector<unsupported_node> found;
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> functions;
  for (const auto& f : m.functions) functions.emplace(f.domain, f.name, f.overload);
  add_unsupported(m.graph->nodes, m.opsets, functions, o, found);
  for (const auto& f : m.functions) add_unsupported(f.nodes, f.opsets, functions, o, found);
  return found;
}

// If a node is unsupported, the error message lists all unsupported nodes.
saved_net net_or_list(const model_message& m, source from, std::size_t file_bytes, const read_options& o) {
  try {
    return net_of(m, std::move(from), file_bytes, o);
  } catch (const unsupported_error& e) {
    if (!m.graph) throw;
    const auto all = unsupported_in(m, o);
    if (all.size() < 2) throw;
    std::set<std::string_view> ops;
    for (const auto& n : all) ops.insert(n.op);
    text t;
    t << e.what() << "; unsupported nodes in all: " << all.size() << ", of the operators";
    for (auto op : ops) t << " " << printable(op);
    detail::raise(error_kind::unsupported, t);
  }
}

}  // namespace

saved_net load(const std::string& path, const read_options& o) {
  const file_bytes file(path);
  const auto model = parse_model(file.all(), path);
  return net_or_list(model, source_of(path), file.all().size(), o);
}
saved_net read(view<const std::byte> file, const std::string& name, const read_options& o) {
  const auto model = parse_model({reinterpret_cast<const char*>(file.data()), file.size()}, name);
  return net_or_list(model, {name}, file.size(), o);
}

std::vector<unsupported_node> unsupported(const std::string& path) {
  const file_bytes file(path);
  const auto model = parse_model(file.all(), path);
  auto found = unsupported_in(model, {});
  // Adds nodes rejected for attributes or types; unknown operators, also in subgraphs, are in the list already.
  const auto add = [&](const node_message& n, std::int64_t opset, std::string_view why) {
    if (!why.ends_with(unknown_operator))
      found.push_back({std::string(n.name), std::string(n.domain), std::string(n.op), opset, std::string(why)});
  };
  try {
    net_of(model, source_of(path), file.all().size(), {}, add);
  } catch (const unsupported_error&) {
    return found;  // the file or an input is unsupported: only operator names could be checked
  }
  return found;
}

named_value load_value(const std::string& path, value_kind kind) {
  const file_bytes file(path);
  const source from = source_of(path);
  from.account->add(file.all().size());
  const auto sequence_of = [&](const sequence_message& m) {
    std::vector<any_tensor> all;
    for (const auto& t : m.tensors) all.push_back(elements_of(t, from, "a tensor of the sequence"));
    return any_value::sequence(std::move(all));
  };
  switch (kind) {
    case value_kind::tensor: {
      const auto t = parse_tensor(file.all(), path);
      return {std::string(t.name), elements_of(t, from, "the tensor")};
    }
    case value_kind::sequence: {
      const auto m = parse_sequence(file.all(), path);
      return {std::string(m.name), sequence_of(m)};
    }
    default: {
      const auto m = parse_optional(file.all(), path);
      if (!m.tensors.empty())
        return {std::string(m.name), any_value::optional(elements_of(m.tensors[0], from, "the tensor"))};
      if (!m.sequences.empty()) return {std::string(m.name), any_value::optional(sequence_of(m.sequences[0]))};
      return {std::string(m.name), any_value::none(kind)};
    }
  }
}

std::vector<operator_entry> operators() {
  std::vector<operator_entry> all;
  for (const auto& d : all_converters())
    for (const auto& e : d.entries) all.push_back({d.domain, e.op, e.since});
  return all;
}

}  // namespace lamina::onnx
