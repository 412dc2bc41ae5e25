// Writes programs as ONNX models: every operation reachable from the roots becomes nodes, states and constants become
// initializers.
module lamina.onnx:save.impl;
import lamina.onnx;
import :source;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {
constexpr std::int64_t oldest_written = 18, newest_written = 25;

const operation_writer* find(view<const operation_writer> all, std::string_view name) {
  for (const auto& w : all)
    if (w.name == name) return &w;
  return nullptr;
}
const operation_writer* writer_of(const operation& op) {
  if (!op.library) return nullptr;
  for (auto all : {elementwise_writers(), shape_writers(), index_writers(), layer_writers(), control_writers()})
    if (const auto* w = find(all, op.name)) return w;
  return nullptr;
}
std::string_view plain_of(const operation& op) {
  for (const auto& p : plain_operations())
    if (op.library && p.name == op.name) return p.op;
  return {};
}

void check(const program& p, std::int64_t opset, const std::string& path) {
  text t;
  t << printable(path, 1024) << ": ";
  if (opset < oldest_written || opset > newest_written)
    detail::raise(error_kind::unsupported,
                  t << "opset is " << opset << "; expected " << oldest_written << " to " << newest_written);
  if (!p.assignments().empty())
    detail::raise(error_kind::unsupported, t << "the program assigns the state `"
                                             << printable(p.at(p.assignments()[0].state).name)
                                             << "`, which ONNX cannot express; make it an output");
  for (auto i : p.inputs())
    if (!p.at(i).results[0].is_tensor())
      detail::raise(error_kind::unsupported,
                    t << "the input `" << printable(p.at(i).name) << "` is not a tensor; only tensors are written");
}

}  // namespace

// ---- names ----------------------------------------------------------------------------------------------------------

std::string model_names::unique(std::string preferred) {
  auto [at, added] = taken_.try_emplace(preferred, 0);
  if (added) return preferred;
  for (;;) {
    std::string other = preferred + "_" + std::to_string(++at->second);
    if (taken_.try_emplace(other, 0).second) return other;
  }
}
std::string model_names::constant(std::string_view preferred, any_tensor data) {
  std::string name = unique(std::string(preferred) + "_constant");
  to_.initializers.push_back({name, std::move(data)});
  return name;
}
std::string model_names::state(const std::string& name) {
  auto [at, added] = state_names_.try_emplace(name);
  if (!added) return at->second;
  const parameter* p = states_.find(name);
  text t;
  if (!p)
    detail::raise(error_kind::state, t << "the net has no state `" << printable(name) << "`, which its program reads");
  at->second = unique(name);
  to_.initializers.push_back({at->second, p->value().data() ? p->value() : p->copy()});
  return at->second;
}
std::string model_names::longs(const written_numbers& all) {
  auto [at, added] = longs_.try_emplace(all);
  if (!added) return at->second;
  any_tensor data({dtype::int64, {static_cast<std::int64_t>(all.size())}});
  if (!all.empty()) std::memcpy(data.mutable_data(), all.data(), all.size() * sizeof all[0]);
  return at->second = constant("numbers", std::move(data));
}
std::string model_names::scalar(double v, dtype element) {
  auto [at, added] = scalars_.try_emplace({std::bit_cast<std::uint64_t>(v), element});
  if (!added) return at->second;
  any_tensor data({element, {}});
  with_type(element, [&]<class T>() {
    if constexpr (std::is_convertible_v<double, T>) {
      const T number = [&] {
        if constexpr (std::is_class_v<T>) return T(static_cast<float>(v));
        else if constexpr (!std::is_integral_v<T>) return static_cast<T>(v);
        else if (!(v > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
        else if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
        else return static_cast<T>(v);
      }();
      std::memcpy(data.mutable_data(), &number, sizeof number);
    }
  });
  return at->second = constant("number", std::move(data));
}

// ---- programs -------------------------------------------------------------------------------------------------------

void program_writer::find_constants() {
  const auto& all = p_.nodes();
  constant_.assign(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const node& n = all[i];
    if (n.kind == node_kind::constant) constant_[i] = 1;
    if (n.kind != node_kind::operation || !n.subprograms.empty() || !n.op->pure || n.op->host || n.inputs.empty())
      continue;
    bool known = true;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      known =
          known && (is_constant(n.inputs[k]) || (n.op->name == "shape_of" && p_.type(n.inputs[k]).dims.is_static()));
    constant_[i] = known;
  }
}

std::optional<any_tensor> program_writer::computed(value_id v) {
  if (!is_constant(v)) return {};
  if (p_.at(v).kind == node_kind::constant) return p_.at(v).constant;
  // The nodes that it depends on, as a separate program.
  std::set<std::int32_t> needed;
  std::vector<std::int32_t> waiting{v.node};
  while (!waiting.empty()) {
    const auto i = waiting.back();
    waiting.pop_back();
    if (!needed.insert(i).second) continue;
    for (auto in : p_.at(i).inputs)
      if (is_constant(in)) waiting.push_back(in.node);
  }
  auto q = std::make_shared<program>();
  std::map<value_id, value> made;
  for (auto i : needed) {
    const node& n = p_.at(i);
    if (n.kind == node_kind::constant) {
      made[{i, 0}] = q->constant(n);
      continue;
    }
    if (n.op->name == "shape_of" && !is_constant(n.inputs[0])) {
      const shape& s = p_.type(n.inputs[0]).dims;
      any_tensor extents({dtype::int64, {s.rank}});
      for (int k = 0; k < s.rank; ++k) {
        const std::int64_t e = s.at(k);
        std::memcpy(extents.mutable_data() + static_cast<std::size_t>(k) * sizeof e, &e, sizeof e);
      }
      made[{i, 0}] = q->constant(std::move(extents));
      continue;
    }
    std::vector<value> in;
    for (auto x : n.inputs) in.push_back(made.at(x));
    const value_id id = q->add(*n.op, n.attributes, view<const value>(in.data(), in.size()));
    for (std::size_t k = 0; k < n.results.size(); ++k)
      made[{i, static_cast<std::int32_t>(k)}] = value(q.get(), {id.node, static_cast<std::int32_t>(k)});
  }
  q->output("y", made.at(v));
  // Shape mismatches are detected when planning.
  const auto refuse = [&](const error& e) {
    text t;
    detail::raise(error_kind::unsupported, t << printable(p_.at(v).path) << (p_.at(v).path.empty() ? "" : ": ")
                                             << "a constant of the model cannot be computed: " << e.what());
  };
  try {
    auto session = ir::session::owning(std::move(q), parameter_store());
    return session.run(view<const any_tensor>())[0];
  } catch (const shape_error& e) { refuse(e); } catch (const value_error& e) {
    refuse(e);
  } catch (const type_error& e) { refuse(e); }
  return {};
}

void program_writer::run() {
  const auto reached = p_.reachable();
  find_constants();
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (reached[i])
      for (auto v : p_.nodes()[i].inputs) used_.insert(v);
  for (const auto& o : p_.outputs()) used_.insert(o.value);
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (reached[i]) write(static_cast<std::int32_t>(i));
}

// Whether the results of a node are written as constants where they are used.
bool program_writer::is_folded(std::int32_t i) const {
  constexpr std::size_t max_folded = std::size_t(1) << 16;
  const node& n = p_.at(i);
  if (!is_constant({i, 0}) || n.op->name == "quantize" || n.op->name == "dequantize") return false;
  std::size_t bytes = 0;
  for (const auto& r : n.results) {
    if (!r.dims.is_static()) return true;  // extents depend on elements of constants
    bytes += r.bytes();
  }
  return bytes <= max_folded;
}

void program_writer::write(std::int32_t i) {
  const node& n = p_.at(i);
  switch (n.kind) {
    case node_kind::input: break;  // already bound
    case node_kind::state: names_[{i, 0}] = m_.state(n.name); break;
    case node_kind::constant: break;  // written on first use
    case node_kind::operation:
      if (!is_folded(i)) write_call(n, i);
      break;
  }
}

std::string program_writer::name_of(value_id v) {
  const auto known = names_.find(v);
  if (known != names_.end()) return known->second;
  const node& n = p_.at(v);
  const auto elements = computed(v);
  if (!elements) detail::raise(error_kind::unsupported, "a result is read that is not written");
  const any_tensor& c = *elements;
  std::string name;
  if (c.shape().rank == 0 && c.element() != dtype::string)
    with_type(c.element(), [&]<class T>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, bool>)
        name = m_.scalar(static_cast<double>(c.elements<T>()[0]), c.element());
    });
  if (name.empty()) name = m_.constant(n.path.empty() ? std::string_view("the") : std::string_view(n.path), c);
  return names_[v] = name;
}

void program_writer::write_call(const node& n, std::int32_t i) {
  written_call c(*this, n, i);
  for (const auto& r : n.results)
    if (!r.is_tensor()) c.unsupported("its result is not a tensor");
  if (const auto op = plain_of(*n.op); !op.empty()) return c.give(c.add(op, c.all()));
  if (const auto* w = writer_of(*n.op)) return w->write(c);
  for (std::size_t k = 0; k < n.results.size(); ++k) {
    const value_id v{i, static_cast<std::int32_t>(k)};
    if (!is_used(v)) continue;
    auto elements = computed(v);
    if (!elements) c.unsupported("no ONNX equivalent is known");
    c.give(c.constant(std::move(*elements)), k);
  }
}

void program_writer::give(value_id v, std::string name, std::size_t first_node) {
  const auto preferred = preferred_.find(v);
  if (preferred != preferred_.end() && g_.nodes.size() > first_node) {
    auto& outputs = g_.nodes.back().outputs;
    const auto at = std::find(outputs.begin(), outputs.end(), name);
    if (at != outputs.end()) *at = name = preferred->second;
  }
  names_[v] = std::move(name);
}

name_list program_writer::add(const node& of, std::string_view op, name_list inputs, attribute_list attributes,
                              std::size_t results) {
  const std::string base = (of.path.empty() ? "" : of.path + "/") + std::string(of.op ? of.op->name : "value");
  name_list outputs;
  for (std::size_t k = 0; k < results; ++k) outputs.push_back(m_.unique(base));
  g_.nodes.push_back({op, outputs[0], std::move(inputs), outputs, std::move(attributes)});
  return outputs;
}

std::string program_writer::shape_of(const node& of, value_id v) {
  const shape& s = p_.type(v).dims;
  if (s.is_static()) {
    written_numbers all;
    for (int i = 0; i < s.rank; ++i) all.push_back(s.at(i));
    return m_.longs(all);
  }
  auto& known = shapes_[v];
  if (known.empty()) known = add(of, "Shape", {name_of(v)}, {}, 1)[0];
  return known;
}

std::string program_writer::extents_between(const node& of, value_id v, int first, int end) {
  const shape& s = p_.type(v).dims;
  written_numbers all;
  for (int i = first; i < end && s[i].is_number(); ++i) all.push_back(s.at(i));
  if (all.size() == static_cast<std::size_t>(std::max(end - first, 0))) return m_.longs(all);
  return add(of, "Shape", {name_of(v)}, {{"start", std::int64_t(first)}, {"end", std::int64_t(end)}}, 1)[0];
}

std::string program_writer::extent_named(const node& of, dim d) {
  auto& known = named_extents_[d.code];
  for (auto i : p_.inputs()) {
    const shape& s = p_.at(i).results[0].dims;
    for (int axis = 0; known.empty() && axis < s.rank; ++axis)
      if (s[axis] == d) known = extents_between(of, {i, 0}, axis, axis + 1);
  }
  return known;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

written_call::written_call(program_writer& writer, const node& n, std::int32_t at)
    : w(writer), of(n), at_(at), first_node_(writer.graph().nodes.size()) {
  n.op->visit(n.attributes.get(),
              [&](std::string_view name, attribute_value& v) { attributes_.emplace_back(std::string(name), v); });
}
name_list written_call::all() {
  name_list names;
  for (std::size_t i = 0; i < operands(); ++i) names.push_back((*this)[i]);
  return names;
}
bool written_call::is_used(std::size_t k) const { return w.is_used({at_, static_cast<std::int32_t>(k)}); }
void written_call::give(std::string name, std::size_t k) {
  w.give({at_, static_cast<std::int32_t>(k)}, std::move(name), first_node_);
}
const attribute_value& written_call::attribute(std::string_view name) const {
  for (const auto& [own, v] : attributes_)
    if (own == name) return v;
  unsupported("an attribute is missing");
}
std::int64_t written_call::integer(std::string_view name) const { return attribute(name).integer; }
double written_call::real(std::string_view name) const { return attribute(name).real; }
dtype written_call::element(std::string_view name) const { return attribute(name).element; }
axes written_call::list(std::string_view name) const { return attribute(name).list; }
shape written_call::extents_of(std::string_view name) const { return attribute(name).dims; }

std::string written_call::extent(std::size_t i, int axis) {
  const dim n = dims(i)[axis];
  if (n.is_number()) return position(n.code);
  return add("Squeeze", {extents(i, axis, axis + 1), longs({0})});
}
std::string written_call::cast(std::string x, dtype to) {
  return add("Cast", {std::move(x)}, {{"to", written_element(to)}});
}

std::string written_call::reshape(const std::string& x, const shape& from, const shape& to) {
  written_numbers all;
  bool zeros = false, inferred = false, plain = true;
  for (int i = 0; i < to.rank; ++i) zeros = zeros || to[i] == dim(0);
  int open = 0, own = 0;
  for (int i = 0; i < to.rank; ++i) open += to[i] == dim(dyn);
  while (own < open - 1 && own < from.rank && to[own] == dim(dyn)) ++own;
  for (int i = 0; i < to.rank; ++i) {
    const bool kept = i < own || (to[i].is_name() && i < from.rank && to[i] == from[i]);
    if (to[i].is_number()) all.push_back(to.at(i));
    else if (kept && !zeros) all.push_back(0);
    else if (!inferred) all.push_back(-1), inferred = true;
    else plain = false;
  }
  attribute_list zero_means_zero;
  if (zeros) zero_means_zero.push_back({"allowzero", std::int64_t(1)});
  if (plain && !(zeros && inferred)) return add("Reshape", {x, longs(all)}, zero_means_zero);
  name_list parts;
  for (int i = 0; i < to.rank; ++i) {
    std::string part;
    if (to[i].is_number()) part = longs({to.at(i)});
    else if (to[i].is_name()) part = w.extent_named(of, to[i]);
    else if (i < own) part = add("Shape", {x}, {{"start", std::int64_t(i)}, {"end", std::int64_t(i + 1)}});
    else if (!zeros) part = longs({-1});
    if (part.empty()) unsupported("the extents of its result are not known from inputs");
    parts.push_back(std::move(part));
  }
  return add("Reshape", {x, concat(std::move(parts))}, zero_means_zero);
}

void written_call::unsupported(std::string_view why) const {
  text t;
  if (!of.path.empty()) t << printable(of.path) << ": ";
  detail::raise(error_kind::unsupported, t << of.op->name << " cannot be written as ONNX: " << why);
}

// All names that a graph and its subgraphs read, including those of its own nodes.
void collect_read(const written_graph& g, std::set<std::string_view>& read) {
  for (const auto& o : g.outputs) read.insert(o.name);
  for (const auto& n : g.nodes) {
    read.insert(n.inputs.begin(), n.inputs.end());
    for (const auto& a : n.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<const written_graph>>(&a.value)) collect_read(**inner, read);
  }
}
// Removes nodes whose results are never read, such as a sort of scores before an operator that sorts them itself.
void drop_unread(written_graph& g) {
  for (std::size_t before = 0; before != g.nodes.size();) {
    before = g.nodes.size();
    std::set<std::string_view> read;
    collect_read(g, read);
    const auto unread = [&](const written_node& n) {
      return std::none_of(n.outputs.begin(), n.outputs.end(), [&](const auto& name) { return read.contains(name); });
    };
    std::vector<written_node> kept;
    for (auto& n : g.nodes)
      if (!unread(n)) kept.push_back(std::move(n));
    g.nodes = std::move(kept);
  }
}

// ---- nets -----------------------------------------------------------------------------------------------------------

std::int64_t written_opset(const saved_net& net) {
  const auto& nodes = net.program->nodes();
  const bool any_int8 = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) {
    return std::any_of(n.results.begin(), n.results.end(), [](const auto& t) { return t.element == dtype::int8; });
  });
  return any_int8 ? 20 : 21;
}

void save(const std::string& path, const saved_net& net, const write_options& o) {
  const program& p = *net.program;
  written_model m;
  m.opset = o.opset.value_or(written_opset(net));
  check(p, m.opset, path);
  m.producer = o.producer;
  for (const auto& [key, v] : net.metadata)
    if (key != "producer") m.metadata[key] = v;
  m.graph.name = "lamina";
  model_names names(m, net.states);
  program_writer w(names, p, m.graph);
  for (auto i : p.inputs()) {
    m.graph.inputs.push_back({names.unique(p.at(i).name), p.at(i).results[0]});
    w.bind({i, 0}, m.graph.inputs.back().name);
  }
  for (const auto& out : p.outputs()) {
    if (!p.type(out.value).is_tensor()) {
      text t;
      detail::raise(error_kind::unsupported, t << printable(path, 1024) << ": the output `" << printable(out.name)
                                               << "` is not a tensor; only tensors are written");
    }
    m.graph.outputs.push_back({names.unique(out.name), p.type(out.value)});
    w.prefer(out.value, m.graph.outputs.back().name);
  }
  w.run();
  for (std::size_t k = 0; k < p.outputs().size(); ++k) {
    const std::string is = w.name_of(p.outputs()[k].value), &preferred = m.graph.outputs[k].name;
    if (is != preferred) m.graph.nodes.push_back({"Identity", preferred, {is}, {preferred}, {}});
  }
  drop_unread(m.graph);
  join_biases(m, names);
  write_model(path, m, o.external_above);
}

}  // namespace lamina::onnx
