module lamina.onnx:scope.impl;
import :convert;
import :message;
import :scope;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Most nodes that one file may describe, functions written out.
constexpr std::size_t max_nodes = 1 << 20;
constexpr std::size_t max_inlining = 100;
// Results that are computed while a file is read: as large as what they are made of, and this much more.
constexpr std::size_t max_folded = std::size_t(16) << 20;
// Initializers up to this size may decide shapes, or stay constants.
constexpr std::int64_t max_shape_elements = 64;
constexpr std::size_t max_constant_bytes = 4096;

std::string place_of(const node_message& n) {
  text t;
  t << "node `" << printable(n.name.empty() && !n.outputs.empty() ? n.outputs[0] : n.name) << "` ("
    << (n.domain.empty() ? "" : printable(n.domain)) << (n.domain.empty() ? "" : ".") << printable(n.op) << ")";
  return t.string();
}

// Attributes of a function's body with those of the call in place of their names.
std::vector<node_message> with_attributes(const std::vector<node_message>& nodes,
                                          const std::map<std::string_view, const attribute_message*>& given);

void replace(attribute_message& a, const std::map<std::string_view, const attribute_message*>& given, bool& kept) {
  if (!a.refers_to.empty()) {
    const auto known = given.find(a.refers_to);
    kept = known != given.end();
    if (!kept) return;
    const auto name = a.name;
    a = *known->second;
    a.name = name;
    return;
  }
  for (auto& g : a.graphs) {
    auto copy = std::make_shared<graph_message>(*g);
    copy->nodes = with_attributes(g->nodes, given);
    g = std::move(copy);
  }
}
std::vector<node_message> with_attributes(const std::vector<node_message>& nodes,
                                          const std::map<std::string_view, const attribute_message*>& given) {
  std::vector<node_message> made = nodes;
  for (auto& n : made) {
    std::vector<attribute_message> attributes;
    for (auto& a : n.attributes) {
      bool kept = true;
      replace(a, given, kept);
      if (kept) attributes.push_back(std::move(a));
    }
    n.attributes = std::move(attributes);
  }
  return made;
}

void add_free(const graph_message& g, std::vector<std::string_view>& found) {
  std::set<std::string_view> own;
  for (const auto& i : g.inputs) own.insert(i.name);
  for (const auto& i : g.initializers) own.insert(i.name);
  for (const auto& i : g.sparse_initializers) own.insert(i.values.name);
  const auto read = [&](std::string_view name) {
    if (!name.empty() && !own.contains(name) && std::find(found.begin(), found.end(), name) == found.end())
      found.push_back(name);
  };
  for (const auto& n : g.nodes) {
    for (auto i : n.inputs) read(i);
    for (const auto& a : n.attributes)
      for (const auto& inner : a.graphs) {
        std::vector<std::string_view> outside;
        add_free(*inner, outside);
        for (auto name : outside) read(name);
      }
    for (auto o : n.outputs) own.insert(o);
  }
  for (const auto& o : g.outputs) read(o.name);
}

}  // namespace

std::vector<std::string_view> free_names(const graph_message& g) {
  std::vector<std::string_view> found;
  add_free(g, found);
  return found;
}

std::int64_t opset_of(const std::vector<opset_message>& opsets, std::string_view domain) {
  if (domain == "ai.onnx") domain = "";
  for (const auto& o : opsets)
    if (o.domain == domain || (domain.empty() && o.domain == "ai.onnx")) return o.version;
  return 0;
}

known_value& scope::define(std::string_view name, known_value v) {
  auto [at, fresh] = values_.try_emplace(std::string(name), std::move(v));
  if (!fresh) {
    text t;
    m_.from.fail(t << "two values of a graph are named `" << printable(name) << "`");
  }
  return at->second;
}
known_value* scope::find(std::string_view name) {
  for (scope* s = this; s; s = s->outer_)
    if (const auto known = s->values_.find(name); known != s->values_.end()) return &known->second;
  return nullptr;
}

value scope::value_of(known_value& k) {
  if (!k.v.empty()) return k.v;
  if (!k.is_parameter) return k.v = p_.constant(k.data);
  k.v = p_.state(k.name, k.data.type());
  const bool trainable = is_real(k.data.element());
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
    // Programs inside of nodes have no states.
    k.is_parameter = !is_inner && (learned || type.bytes() > max_constant_bytes);
    k.name = name;
    k.data = std::move(data);
    define(name, std::move(k));
  };
  text what;
  for (const auto& t : g.initializers) {
    if (t.name.empty()) m_.from.fail(what << "an initializer has no name");
    text words;
    words << "initializer `" << printable(t.name) << "`";
    add(t.name, elements_of(t, m_.from, words.view()));
  }
  for (const auto& t : g.sparse_initializers) {
    if (t.values.name.empty()) m_.from.fail(what << "a sparse initializer has no name");
    text words;
    words << "sparse initializer `" << printable(t.values.name) << "`";
    add(t.values.name, elements_of(t, m_.from, words.view()));
  }
}

void scope::run(const std::vector<node_message>& nodes) {
  for (const auto& n : nodes) convert(n);
}

std::vector<known_value> scope::outputs(const std::vector<std::string_view>& names) {
  std::vector<known_value> found;
  for (auto name : names) {
    known_value* k = name.empty() ? nullptr : find(name);
    if (!k) {
      text t;
      m_.from.fail(t << "output `" << printable(name)
                     << "` of a graph is given by no node, input or initializer of it");
    }
    found.push_back(*k);
  }
  return found;
}

void scope::convert(const node_message& n) {
  if (++m_.nodes > max_nodes) {
    text t;
    m_.from.fail(t << "it has more than " << max_nodes << " nodes once its functions are written out");
  }
  const std::string outer = std::exchange(p_.path, {});
  text here;
  here << path << (path.empty() ? "" : "/") << printable(n.name.empty() ? n.op : n.name);
  p_.path = here.string();
  const std::int64_t opset = opset_of(opsets_, n.domain);
  const auto words = [&](const error& e) {
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
    detail::raise(error_kind::unsupported, words(e));
  } catch (const out_of_memory&) { throw; } catch (const error& e) {
    detail::raise(error_kind::file, words(e));
  }
  p_.path = outer;
}

std::vector<known_value*> scope::operands_of(const node_message& n) {
  std::vector<known_value*> operands;
  for (auto name : n.inputs) {
    known_value* k = name.empty() ? nullptr : find(name);
    if (!k && !name.empty() && !left_out_.contains(name)) {
      text t;
      detail::raise(error_kind::file,
                    t << "it reads `" << printable(name) << "`, which no input, initializer or earlier node gives");
    }
    operands.push_back(k);
  }
  while (!operands.empty() && !operands.back()) operands.pop_back();
  return operands;
}

void scope::convert_checked(const node_message& n, std::int64_t opset) {
  const auto operands = operands_of(n);
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
    detail::raise(error_kind::unsupported, t << "lamina does not know this operator");
  }
  if (fold(n, *e, opset, operands)) return;
  node_call c(n, opset, p_, *this, operands);
  e->convert(c);
  propagate_extents(c);
  take_results(n, std::move(c.results));
}

void scope::take_results(const node_message& n, std::vector<known_value> results) {
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    if (i >= results.size() || (results[i].v.empty() && !results[i].data)) {
      text t;
      detail::raise(error_kind::unsupported,
                    t << "its result " << i << ", `" << printable(n.outputs[i]) << "`, is not supported");
    }
    define(n.outputs[i], std::move(results[i]));
  }
}

// Computes a node whose operands are all known. What is made of parameters is a parameter.
bool scope::fold(const node_message& n, const converter_entry& e, std::int64_t opset,
                 const std::vector<known_value*>& operands) {
  if (!e.folds || operands.empty()) return false;
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
    given[i] = &copies[i];
  }
  node_call c(n, opset, alone, here, given);
  e.convert(c);
  std::size_t made = 0;
  std::vector<std::size_t> computed;
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    if (!c.wants(i) || c.results[i].data) continue;
    if (c.results[i].v.empty() || !c.results[i].v.shape().is_static()) return false;
    made += c.results[i].v.type().bytes();
    computed.push_back(i);
    alone.output(n.outputs[i], c.results[i].v);
  }
  if (made > bytes + max_folded) return false;
  if (!computed.empty()) {
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
    if (!c.wants(i)) continue;
    r.v = {};
    r.is_parameter = of_parameters && !is_inner;
    r.name = std::string(n.outputs[i]);
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
                                      << " inputs and " << f.outputs.size() << " outputs, and is called with "
                                      << operands.size() << " and " << n.outputs.size());
  }
  std::map<std::string_view, const attribute_message*> given;
  for (const auto& a : f.defaults) given[a.name] = &a;
  for (const auto& a : n.attributes) given[a.name] = &a;
  const auto nodes = with_attributes(f.nodes, given);
  scope inside(m_, p_, f.opsets);
  inside.is_inner = is_inner;
  inside.path = p_.path;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    // Parameters are made once, by the graph that has them.
    if (operands[i]->is_parameter) value_of(*operands[i]);
    inside.define(f.inputs[i], *operands[i]);
  }
  for (std::size_t i = 0; i < f.inputs.size(); ++i)
    if (!inside.find(f.inputs[i])) inside.left_out_.insert(std::string(f.inputs[i]));
  m_.inlining.push_back(&f);
  inside.run(nodes);
  m_.inlining.pop_back();
  std::vector<known_value> results;
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    results.push_back(n.outputs[i].empty() ? known_value{} : inside.outputs({f.outputs[i]})[0]);
  take_results(n, std::move(results));
}

}  // namespace lamina::onnx
