module lamina.onnx:scope.impl;
import :convert;
import :message;
import :scope;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Limit on nodes of a file, with functions inlined: as many as a file of its size can hold, up to `max_nodes`, plus a
// margin.
constexpr std::size_t max_nodes = 1 << 20, more_nodes = 1 << 17, bytes_of_a_node = 4;
constexpr std::size_t max_inlining = 100, max_nesting = 200;
// Limits on constant folding. Bytes of one result: the bytes of its operands plus a margin; bytes of all results: the
// file's size plus a margin; and the total FLOPs.
constexpr std::size_t max_folded = std::size_t(16) << 20, max_all_folded = std::size_t(256) << 20;
constexpr double max_flops = 1e10;
// Limit on the number of folded nodes, each of which runs in its own session: a base, plus more for a large file.
constexpr std::size_t max_folds = 1 << 14, bytes_of_a_fold = 256, max_more_folds = 1 << 16;
// Initializers up to this size may determine shapes, or stay constants.
constexpr std::int64_t max_shape_elements = 64;
constexpr std::size_t max_constant_bytes = 4096;

std::string place_of(const node_message& n) {
  text t;
  t << "node `" << printable(n.name.empty() && !n.outputs.empty() ? n.outputs[0] : n.name) << "` ("
    << (n.domain.empty() ? "" : printable(n.domain)) << (n.domain.empty() ? "" : ".") << printable(n.op) << ")";
  return t.string();
}

// Unique names in the order of discovery.
struct name_list {
  std::vector<std::string_view> in_order;
  std::set<std::string_view> known;
  void add(std::string_view name) {
    if (known.insert(name).second) in_order.push_back(name);
  }
};
void add_free(const graph_message& g, name_list& found) {
  std::set<std::string_view> own;
  for (const auto& i : g.inputs) own.insert(i.name);
  for (const auto& i : g.initializers) own.insert(i.name);
  for (const auto& i : g.sparse_initializers) own.insert(i.values.name);
  const auto read = [&](std::string_view name) {
    if (!name.empty() && !own.contains(name)) found.add(name);
  };
  for (const auto& n : g.nodes) {
    for (auto i : n.inputs) read(i);
    for (const auto& a : n.attributes)
      for (const auto& inner : a.graphs) {
        name_list outside;
        add_free(*inner, outside);
        for (auto name : outside.in_order) read(name);
      }
    for (auto o : n.outputs) own.insert(o);
  }
  for (const auto& o : g.outputs) read(o.name);
}

// A parameter that is reshaped, transposed or cast keeps its name; a result of several parameters gets the output's
// name.
std::string state_name(const std::vector<known_value*>& operands, const any_tensor& result, std::string_view output) {
  const known_value* of = nullptr;
  for (const auto* k : operands) {
    if (!k || !k->is_parameter) continue;
    if (of) return std::string(output);
    of = k;
  }
  return of && of->data.type().dims.size() == result.type().dims.size() ? of->name : std::string(output);
}

}  // namespace

std::vector<std::string_view> free_names(const graph_message& g) {
  name_list found;
  add_free(g, found);
  return std::move(found.in_order);
}

std::int64_t opset_of(const std::vector<opset_message>& opsets, std::string_view domain) {
  if (domain == "ai.onnx") domain = "";
  for (const auto& o : opsets)
    if (o.domain == domain || (domain.empty() && o.domain == "ai.onnx")) return o.version;
  return 0;
}

known_value& scope::define(std::string_view name, known_value v) {
  auto [at, fresh] = values_.try_emplace(std::string(name));
  if (!fresh) {
    text t;
    m_.from.fail(t << "two values of a graph are named `" << printable(name) << "`");
  }
  at->second = std::move(v);
  return at->second;
}
known_value* scope::find(std::string_view name) {
  for (scope* s = this; s; s = s->outer_)
    if (const auto known = s->values_.find(name); known != s->values_.end()) return &known->second;
  return nullptr;
}

value scope::value_of(known_value& k) {
  if (!k.v.empty()) return k.v;
  if (k.open_sequence) {
    text t;
    detail::raise(error_kind::unsupported, t << printable(m_.from.file, 1024) << ": " << path
                                             << (path.empty() ? "" : ": ")
                                             << "a result is an empty sequence of unknown rank");
  }
  if (!k.is_parameter) return k.v = p_.constant(k.data);
  if (k.state && !k.state->empty()) return k.v = *k.state;
  // Names in graphs and functions may collide with outer names.
  std::string name = k.name;
  const std::string within = path.empty() ? k.name : path + "/" + k.name;
  for (int again = 1; m_.states.find(name); ++again) name = again == 1 ? within : within + ":" + std::to_string(again);
  k.name = name;
  k.v = p_.state(k.name, k.data.type());
  if (k.state) *k.state = k.v;
  const bool trainable = is_real(k.data.element()) && !k.is_statistic;
  m_.states.add(k.name, k.data, trainable ? state_role::parameter : state_role::statistic, trainable);
  return k.v;
}

void scope::read_initializers(const graph_message& g) {
  const auto add = [&](std::string_view name, any_tensor data) {
    known_value k;
    const tensor_type type = data.type();
    const std::int64_t count = type.dims.size();
    const bool learned = is_floating(type.element) && type.dims.rank > 0 && count > 1 &&
                         !(count <= max_shape_elements && m_.shape_constants.contains(name));
    // Subprograms have no states.
    k.is_parameter = !is_inner && type.element != dtype::string && (learned || type.bytes() > max_constant_bytes);
    k.name = name;
    if (k.is_parameter) k.state = std::make_shared<value>();
    k.data = std::move(data);
    define(name, std::move(k));
  };
  text what;
  for (const auto& t : g.initializers) {
    if (t.name.empty()) m_.from.fail(what << "an initializer has no name");
    text context;
    context << "initializer `" << printable(t.name) << "`";
    if (m_.replaced.contains(t.name) && !outer_ && !is_inner) continue;
    add(t.name, elements_of(t, m_.from, context.view()));
  }
  for (const auto& t : g.sparse_initializers) {
    if (t.values.name.empty()) m_.from.fail(what << "a sparse initializer has no name");
    text context;
    context << "sparse initializer `" << printable(t.values.name) << "`";
    add(t.values.name, elements_of(t, m_.from, context.view()));
  }
}

void scope::charge(std::size_t units) {
  const std::size_t max = std::min(m_.file_bytes / bytes_of_a_node, max_nodes) + more_nodes;
  if (units <= max && m_.work <= max - units) {
    m_.work += units;
    return;
  }
  text t;
  m_.from.fail(t << "it describes more than " << max
                 << " nodes, far more than its size allows; its functions call each other too often");
}

const attribute_message* scope::meant(const attribute_message& a) const {
  if (a.refers_to.empty()) return &a;
  if (!attributes) return nullptr;
  const auto known = attributes->find(a.refers_to);
  return known == attributes->end() ? nullptr : known->second;
}

void scope::run(const std::vector<node_message>& nodes) {
  const bool main = !outer_ && !is_inner && m_.inlining.empty();
  for (const auto& n : nodes)
    if (main && m_.refused) convert_or_refuse(n);
    else convert(n);
}

bool scope::reads_unknown(const node_message& n) const {
  const auto unknown = [&](std::string_view name) { return unknown_.contains(name); };
  if (std::any_of(n.inputs.begin(), n.inputs.end(), unknown)) return true;
  for (const auto& a : n.attributes)
    for (const auto& g : a.graphs)
      if (const auto names = free_names(*g); std::any_of(names.begin(), names.end(), unknown)) return true;
  return false;
}

void scope::convert_or_refuse(const node_message& n) {
  const std::string outer = p_.path;
  bool known = !reads_unknown(n);
  try {
    if (known) convert(n);
  } catch (const unsupported_error& e) {
    known = false;
    m_.depth = 0;
    m_.inlining.clear();
    p_.path = outer;
    text before;
    before << printable(m_.from.file, 1024) << ": " << place_of(n) << ", opset " << opset_of(opsets_, n.domain) << ": ";
    std::string_view why = e.what();
    if (why.starts_with(before.view())) why.remove_prefix(before.view().size());
    m_.refused(n, opset_of(opsets_, n.domain), why);
  }
  if (known) return;
  for (auto name : n.outputs)
    if (!name.empty()) unknown_.emplace(name);
}

std::vector<known_value> scope::outputs(const std::vector<std::string_view>& names) {
  std::vector<known_value> found;
  for (auto name : names) {
    known_value* k = name.empty() ? nullptr : find(name);
    if (!k) {
      text t;
      m_.from.fail(t << "output `" << printable(name) << "` of a graph is not defined by a node, input or initializer");
    }
    found.push_back(*k);
  }
  return found;
}

void scope::convert(const node_message& n) {
  charge(1 + (n.inputs.size() + n.outputs.size() + n.attributes.size()) / 16);
  if (++m_.depth > max_nesting) {
    text t;
    m_.from.fail(t << "graphs and functions are nested deeper than " << max_nesting);
  }
  const std::string outer = std::exchange(p_.path, {});
  text here;
  here << path << (path.empty() ? "" : "/") << printable(n.name.empty() ? n.op : n.name);
  if (n.name.empty() && !n.outputs.empty()) here << " `" << printable(n.outputs[0]) << "`";
  p_.path = here.string();
  const std::int64_t opset = opset_of(opsets_, n.domain);
  const auto message_of = [&](const error& e) {
    std::string_view what = e.what();
    if (what.starts_with(printable(m_.from.file, 1024))) return std::string(what);
    if (what.starts_with(p_.path + ": ")) what.remove_prefix(p_.path.size() + 2);
    text t;
    t << printable(m_.from.file, 1024) << ": " << place_of(n);
    if (opset) t << ", opset " << opset;
    return (t << ": " << what).string();
  };
  try {
    convert_checked(n, opset);
  } catch (const unsupported_error& e) {
    detail::raise(error_kind::unsupported, message_of(e));
  } catch (const out_of_memory&) { throw; } catch (const error& e) {
    detail::raise(error_kind::file, message_of(e));
  }
  p_.path = outer;
  --m_.depth;
}

std::vector<known_value*> scope::operands_of(const node_message& n) {
  std::vector<known_value*> operands;
  for (auto name : n.inputs) {
    known_value* k = name.empty() ? nullptr : find(name);
    if (!k && !name.empty() && !left_out_.contains(name)) {
      text t;
      detail::raise(error_kind::file,
                    t << "it reads `" << printable(name) << "`, which no input, initializer or earlier node defines");
    }
    operands.push_back(k);
  }
  while (!operands.empty() && !operands.back()) operands.pop_back();
  return operands;
}

void scope::convert_checked(const node_message& n, std::int64_t opset) {
  if (n.outputs.empty()) {
    text t;
    detail::raise(error_kind::file, t << "it has no results");
  }
  const auto operands = operands_of(n);
  if (m_.own) {
    node_call c(n, opset, p_, *this, operands);
    if (m_.own(c)) return take_results(n, std::move(c.results));
  }
  if (const auto f = m_.functions.find({n.domain, n.op, n.overload}); f != m_.functions.end()) {
    inline_function(n, *f->second, operands);
    return;
  }
  const bool standard = n.domain.empty() || n.domain == "ai.onnx";
  if (opset == 0) {
    text t;
    detail::raise(error_kind::file, t << "the file imports no opset of its domain `" << printable(n.domain) << "`");
  }
  const converter_entry* e = find_converter(standard ? std::string_view() : n.domain, n.op, opset);
  if (!e) {
    text t;
    detail::raise(error_kind::unsupported, t << unknown_operator);
  }
  if (fold(n, *e, opset, operands)) return;
  node_call c(n, opset, p_, *this, operands);
  convert_strings(c, e->convert);
  propagate_extents(c);
  take_results(n, std::move(c.results));
}

void scope::take_results(const node_message& n, std::vector<known_value> results) {
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    if (i >= results.size() || (results[i].v.empty() && !results[i].data && !results[i].open_sequence)) {
      text t;
      detail::raise(error_kind::unsupported,
                    t << "its result " << i << ", `" << printable(n.outputs[i]) << "`, is not supported");
    }
    define(n.outputs[i], std::move(results[i]));
  }
}

// Whether all results of a constant program have known extents and are small enough to keep.
bool scope::may_compute(const program& alone, std::size_t operand_bytes) {
  std::size_t bytes = 0;
  double flops = 0;
  std::vector<tensor_type> in;
  for (const auto& n : alone.nodes()) {
    if (n.kind != node_kind::operation) continue;
    if (!n.subprograms.empty()) return false;
    for (const auto& t : n.results) {
      if (!t.dims.is_static() || !t.dims.countable()) return false;
      if (__builtin_add_overflow(bytes, t.bytes(), &bytes)) return false;
    }
    in.clear();
    for (auto v : n.inputs) in.push_back(alone.type(v));
    flops += n.op->flops(n.attributes.get(), in, n.results);
  }
  if (bytes > operand_bytes + max_folded || bytes > m_.file_bytes + max_all_folded - m_.folded_bytes ||
      !(flops <= max_flops - m_.folded_flops))
    return false;
  m_.folded_bytes += bytes;
  m_.folded_flops += flops;
  return true;
}

// Constant-folds a node whose operands are all known. A result computed from parameters is a parameter.
bool scope::fold(const node_message& n, const converter_entry& e, std::int64_t opset,
                 const std::vector<known_value*>& operands) {
  if (!e.folds || operands.empty()) return false;
  if (m_.folds >= max_folds + std::min(m_.file_bytes / bytes_of_a_fold, max_more_folds)) return false;
  std::size_t bytes = 0;
  bool of_parameters = false;
  for (const auto* k : operands) {
    if (!k) continue;
    if (!k->data) return false;
    bytes += k->data.bytes();
    of_parameters = of_parameters || k->is_parameter;
  }
  program alone;
  alone.path = p_.path;
  scope here(m_, alone, opsets_);
  std::vector<known_value> copies(operands.size());
  std::vector<known_value*> given(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    copies[i].data = operands[i]->data;
    copies[i].state = operands[i]->state;
    given[i] = &copies[i];
  }
  here.attributes = attributes;
  node_call c(n, opset, alone, here, given);
  convert_strings(c, e.convert);
  std::vector<std::size_t> computed;
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    if (!c.has_output(i) || c.results[i].data) continue;
    if (c.results[i].v.empty()) return false;
    computed.push_back(i);
    alone.output(n.outputs[i], as_result(c.results[i].v));
  }
  if (!may_compute(alone, bytes)) return false;
  if (!computed.empty()) {
    ++m_.folds;
    ir::session run(std::make_shared<const program>(std::move(alone)));
    auto values = run.run(view<const any_tensor>());
    for (std::size_t i = 0; i < computed.size(); ++i) {
      auto& r = c.results[computed[i]];
      r.v = {};
      r.data = std::move(values[i]);
    }
  }
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    auto& r = c.results[i];
    if (!c.has_output(i)) continue;
    // An alias of a parameter.
    const auto same =
        std::find_if(operands.begin(), operands.end(), [&](auto* k) { return k && r.state && k->state == r.state; });
    if (same != operands.end()) {
      r = **same;
      continue;
    }
    r.v = {};
    r.is_parameter = of_parameters && !is_inner && r.data.element() != dtype::string;
    r.name = state_name(operands, r.data, n.outputs[i]);
    if (r.is_parameter) r.state = std::make_shared<value>();
  }
  take_results(n, std::move(c.results));
  return true;
}

void scope::inline_function(const node_message& n, const function_message& f, std::vector<known_value*> operands) {
  if (std::find(m_.inlining.begin(), m_.inlining.end(), &f) != m_.inlining.end() ||
      m_.inlining.size() >= max_inlining) {
    text t;
    detail::raise(error_kind::file, t << "function `" << printable(f.name)
                                      << "` calls itself, or functions are nested deeper than " << max_inlining);
  }
  if (operands.size() > f.inputs.size() || n.outputs.size() > f.outputs.size()) {
    text t;
    detail::raise(error_kind::file, t << "function `" << printable(f.name) << "` has " << f.inputs.size()
                                      << " inputs and " << f.outputs.size() << " outputs, but is called with "
                                      << operands.size() << " and " << n.outputs.size());
  }
  attribute_map given;
  for (const auto& a : f.defaults) given[a.name] = &a;
  for (const auto& a : n.attributes)
    if (const auto* means = meant(a)) given[a.name] = means;
  scope inside(m_, p_, f.opsets);
  inside.is_inner = is_inner;
  inside.path = p_.path;
  inside.attributes = &given;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    // Parameters are created once, by the graph that owns them.
    if (operands[i]->is_parameter) value_of(*operands[i]);
    inside.define(f.inputs[i], *operands[i]);
  }
  for (std::size_t i = 0; i < f.inputs.size(); ++i)
    if (!inside.find(f.inputs[i])) inside.left_out_.insert(std::string(f.inputs[i]));
  m_.inlining.push_back(&f);
  inside.run(f.nodes);
  m_.inlining.pop_back();
  std::vector<known_value> results;
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    results.push_back(n.outputs[i].empty() ? known_value{} : inside.outputs({f.outputs[i]})[0]);
  take_results(n, std::move(results));
}

}  // namespace lamina::onnx
