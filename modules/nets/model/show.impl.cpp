module lamina:show.impl;
import :core;
import :dtype;
import :model;
import :op;
import :op.control;
import :parameter;
import :parameter.naming;
import :program;
import :shape;
import :show;
import :tensor;
import :topology.analysis;
import lamina.std;

namespace lamina::detail {

net_part bare_part(std::string name, std::string_view kind, view<const label> inputs, view<const label> outputs) {
  net_part p;
  p.name = std::move(name);
  p.kind = kind;
  for (const auto& l : inputs) p.inputs.push_back(l.string());
  for (const auto& l : outputs) p.outputs.push_back(l.string());
  return p;
}
void connect_parts(net_part& whole, view<const int> first_in, view<const source> feeds, view<const source> results) {
  auto from = [](const source& s) { return net_part::end{s.is_input() ? net_part::whole : s.node, s.port}; };
  for (std::size_t i = 0; i < whole.parts.size(); ++i)
    for (std::size_t p = 0; p < whole.parts[i].inputs.size(); ++p)
      whole.edges.push_back(
          {from(feeds[static_cast<std::size_t>(first_in[i]) + p]), {static_cast<int>(i), static_cast<int>(p)}});
  for (std::size_t o = 0; o < whole.outputs.size(); ++o)
    whole.edges.push_back({from(results[o]), {net_part::whole, static_cast<int>(o)}});
  whole.computes = false;
}

namespace {

// ---- layers recorded by a trace ---------------------------------------------------------------------------------------

struct traced_layer {
  std::string path, parent, name;
  net_part as;
  int calls = 0;
  std::string shapes;
  std::int64_t parameters = 0;
  double flops = 0;
  bool has_parts = false, computes = false, known = true;  // known: whether the flops are known
};
struct traced_call {
  std::size_t layer;
  std::vector<value> in, out;
};

class traced_layers final : public trace_listener {
 public:
  std::vector<traced_layer> all;
  std::vector<std::size_t> ended;  // layers by the end of their first call
  std::vector<traced_call> calls;  // by their start

  void entered(view<const label> path, std::string_view kind, view<const label> inputs, view<const label> outputs,
               view<const value> in) override {
    std::string parent, name;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (i) parent += (parent.empty() ? "" : ".") + name;
      name = path[i].string();
    }
    const std::string full = parent.empty() ? name : parent + "." + name;
    const auto around = std::find_if(open_.rbegin(), open_.rend(), [](std::size_t c) { return c != same_layer; });
    if (around != open_.rend() && all[calls[*around].layer].path == full) return open_.push_back(same_layer);
    auto at = find(full);
    if (at == all.size()) {
      traced_layer l;
      l.path = full;
      l.parent = parent;
      l.name = name;
      l.as = bare_part(name, kind, inputs, outputs);
      all.push_back(std::move(l));
    }
    ++all[at].calls;
    if (around != open_.rend()) all[calls[*around].layer].has_parts = true;
    open_.push_back(calls.size());
    calls.push_back({at, {in.begin(), in.end()}, {}});
  }
  void left(view<const value> out) override {
    const auto call = open_.back();
    open_.pop_back();
    if (call == same_layer) return;
    traced_call& c = calls[call];
    c.out.assign(out.begin(), out.end());
    traced_layer& l = all[c.layer];
    if (std::find(ended.begin(), ended.end(), c.layer) != ended.end()) return;
    ended.push_back(c.layer);
    text t;
    for (std::size_t i = 0; i < out.size(); ++i) t << (i ? ", " : "") << out[i].shape();
    l.shapes = t.string();
  }
  std::size_t find(std::string_view path) const {
    std::size_t i = 0;
    while (i < all.size() && all[i].path != path) ++i;
    return i;
  }

 private:
  static constexpr auto same_layer =
      static_cast<std::size_t>(-1);  // marks a nested layer that runs under its caller's path
  std::vector<std::size_t> open_;    // running calls
};

// A net traced without a store: states become inputs, nothing is allocated.
struct traced_net {
  program made;
  traced_leaves leaves;
  traced_layers layers;
};
void trace_net(const model_definition& d, view<const shape> extents, traced_net& net) {
  parameter_store unused;
  std::vector<value> in, out(d.outputs.size());
  for (std::size_t i = 0; i < d.inputs.size(); ++i)
    in.push_back(net.made.input(d.inputs[i].name,
                                {d.inputs[i].type.element, extents.size() ? extents[i] : d.inputs[i].type.dims}));
  trace_walk walk{net.made, unused, 0, d.element, false, false, d.trainable, &net.leaves};
  walk.listener = &net.layers;
  trace_scope scope(walk);
  d.trace(scope, in, view<value>(out));
  net.made.path.clear();
  for (std::size_t o = 0; o < out.size(); ++o) net.made.output(d.outputs[o].name, out[o]);
}

// Extracts the path of a node's layer from its description in messages.
std::string_view path_of(std::string_view message) {
  constexpr std::string_view before = "sublayer `";
  if (!message.starts_with(before)) return {};
  message.remove_prefix(before.size());
  return message.substr(0, message.find('`'));
}

// Adds the operations of a program that runs `times` times to their layers.
void add_operations(const program& p, double times, traced_layers& to) {
  const auto reached = p.reachable();
  for (std::size_t n = 0; n < p.nodes().size(); ++n) {
    const node& at = p.nodes()[n];
    if (at.kind != node_kind::operation || !reached[n]) continue;
    std::vector<tensor_type> in;
    bool known = true;
    for (auto v : at.inputs) in.push_back(p.type(v));
    for (const auto& t : in) known = known && t.dims.is_static();
    for (const auto& t : at.results) known = known && t.dims.is_static();
    if (auto i = to.find(path_of(at.path)); i < to.all.size()) {
      to.all[i].computes = true;
      to.all[i].known = to.all[i].known && known;
      if (known && at.subprograms.empty()) to.all[i].flops += times * at.op->flops(at.attributes.get(), in, at.results);
    }
    double iterations = 1;
    if (is_call_of<op::scan>(at))
      iterations =
          static_cast<double>(in[static_cast<std::size_t>(at.attributes_as<scan_attributes>().carries)].dims.at(0));
    for (const auto& s : at.subprograms) add_operations(*s, times * iterations, to);
  }
}

struct counted {
  std::int64_t all = 0, trained = 0;
};
// Attributes a shared parameter to the first layer that requests it.
counted add_parameters(const model_definition& d, const traced_leaves& leaves, traced_layers& to) {
  counted c;
  std::vector<std::string> seen;
  for (const auto& l : leaves.all) {
    if (l.role != state_role::parameter) continue;
    const auto name = d.names.empty() ? l.path : d.names(l.path);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    const auto dot = l.path.rfind('.');
    const auto i = to.find(dot == std::string::npos ? std::string_view() : std::string_view(l.path).substr(0, dot));
    const auto elements = l.type.dims.size();
    if (i < to.all.size()) to.all[i].parameters += elements;
    c.all += elements;
    if (l.trainable) c.trained += elements;
  }
  return c;
}

// ---- the table ----------------------------------------------------------------------------------------------------------

void check_extents(const model_definition& d, view<const shape> given) {
  text t("show: ");
  if (given.size() != d.inputs.size())
    raise(error_kind::shape, t << "the net has " << d.inputs.size() << (d.inputs.size() == 1 ? " input" : " inputs")
                               << "; got " << given.size() << (given.size() == 1 ? " shape" : " shapes"));
  dimension_names names;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const shape& pattern = d.inputs[i].type.dims;
    if (!fits(pattern, given[i]) || !given[i].is_static())
      raise(error_kind::shape, t << "input `" << d.inputs[i].name << "` is " << pattern << "; got " << given[i]);
    if (dim clash = names.bind(pattern, given[i]); clash.is_name())
      raise(error_kind::shape, t << "dimension `" << clash << "` has two extents; input `" << d.inputs[i].name
                                 << "` is " << pattern << "; got " << given[i]);
  }
}

using line = std::array<std::string, 5>;
std::string integer_text(double v) {
  text t;
  t << static_cast<std::int64_t>(v);
  return t.string();
}
std::string aligned(const std::vector<line>& lines) {
  std::size_t widths[5]{};
  for (const auto& l : lines)
    for (std::size_t c = 0; c < 5; ++c) widths[c] = std::max(widths[c], l[c].size());
  std::string s;
  for (const auto& l : lines) {
    for (std::size_t c = 0; c < 5; ++c) {
      const std::string blank(widths[c] - l[c].size(), ' ');
      s += (c ? "  " : "") + (c < 3 ? l[c] + blank : blank + l[c]);
    }
    s += "\n";
  }
  return s;
}

}  // namespace

namespace {
// Input shapes for the flops: the given ones, else the declared ones with 1 for symbolic extents.
std::vector<shape> numbers_for(const model_definition& d, view<const shape> extents) {
  if (extents.size()) {
    check_extents(d, extents);
    return {extents.begin(), extents.end()};
  }
  std::vector<shape> numbers;
  for (const auto& i : d.inputs) {
    numbers.push_back(i.type.dims);
    for (int k = 0; k < numbers.back().rank; ++k)
      if (!numbers.back()[k].is_number()) numbers.back()[k] = 1;
  }
  return numbers;
}
// Adds a line for each layer of `rows` that computes, with flops from `net`. Returns their sum if all are known.
std::optional<double> add_lines(const traced_layers& rows, const traced_layers& net, bool counts,
                                std::vector<line>& lines) {
  double sum = 0;
  for (auto i : rows.ended) {
    const traced_layer& l = rows.all[i];
    const auto at = net.find(l.path);
    const traced_layer* m = counts && at < net.all.size() ? &net.all[at] : nullptr;
    if (l.has_parts && !l.parameters && !(m && m->computes)) continue;
    const bool known = m && m->known;
    counts = counts && known;
    if (m) sum += m->flops;
    text kind(l.as.kind), count;
    if (l.calls > 1) kind << " (" << l.calls << " calls)";
    count << l.parameters;
    lines.push_back({l.path.empty() ? "(whole)" : l.path, kind.string(), l.shapes, count.string(),
                     known ? integer_text(m->flops) : "?"});
  }
  return counts ? std::optional(sum) : std::nullopt;
}
}  // namespace

std::string table_of(const model_definition& d, view<const shape> extents) {
  const auto numbers = numbers_for(d, extents);
  traced_net net;
  bool counts = true;  // whether the net accepts these shapes
  try {
    trace_net(d, numbers, net);
    add_operations(net.made, 1, net.layers);
  } catch (const shape_error&) {
    if (extents.size()) throw;
    counts = false;
  }
  traced_net named;  // with the symbolic shapes of the definition
  if (!extents.size()) trace_net(d, {}, named);
  traced_layers& rows = extents.size() ? net.layers : named.layers;
  const auto total = add_parameters(d, extents.size() ? net.leaves : named.leaves, rows);

  std::vector<line> lines{{"sublayer", "kind", "output", "parameters", "flops"}};
  const auto flops = add_lines(rows, net.layers, counts, lines);
  text count, last;
  count << total.all;
  lines.push_back({"total", "", "", count.string(), flops ? integer_text(*flops) : "?"});
  last << total.trained << " of " << total.all << " parameters are trained; flops for";
  for (std::size_t i = 0; i < d.inputs.size(); ++i)
    last << (i ? ", `" : " `") << d.inputs[i].name << "` " << numbers[i];
  return aligned(lines) + last.string() + "\n";
}

// ---- the drawing --------------------------------------------------------------------------------------------------------

namespace {

// Connects the parts of a layer that is composed in code, by the data flow of the traced program.
class data_flow {
 public:
  data_flow(const traced_layers& recorded, std::string_view path, net_part& whole)
      : recorded_(recorded), whole_(whole) {
    for (std::size_t i = 0; i < recorded.all.size(); ++i)
      if (!recorded.all[i].path.empty() && recorded.all[i].parent == path) parts_.push_back(i);
    self_ = recorded.find(path);
  }
  // Returns false if the parts run in a separate program, such as the body of a recurrent layer.
  bool connect() {
    for (const auto& c : recorded_.calls)
      if (place(c.layer) >= 0 || c.layer == self_)
        for (const auto* values : {&c.in, &c.out})
          for (const auto& v : *values) {
            if (!owner_) owner_ = &v.owner();
            if (owner_ != &v.owner()) return false;
          }
    for (auto i : parts_) whole_.parts.push_back(recorded_.all[i].as);
    for (const auto& c : recorded_.calls) {
      const int part = place(c.layer);
      if (c.layer == self_)
        for (std::size_t p = 0; p < c.in.size(); ++p) made_[c.in[p].id()] = {net_part::whole, static_cast<int>(p)};
      if (part < 0) continue;
      for (std::size_t p = 0; p < c.in.size(); ++p) lead(c.in[p].id(), {part, static_cast<int>(p)});
      for (std::size_t p = 0; p < c.out.size(); ++p) made_[c.out[p].id()] = {part, static_cast<int>(p)};
    }
    for (const auto& c : recorded_.calls)
      if (c.layer == self_)
        for (std::size_t p = 0; p < c.out.size(); ++p) lead(c.out[p].id(), {net_part::whole, static_cast<int>(p)});
    return true;
  }

 private:
  int place(std::size_t layer) const {
    auto at = std::find(parts_.begin(), parts_.end(), layer);
    return at == parts_.end() ? -1 : static_cast<int>(at - parts_.begin());
  }
  // Adds edges to `to` from the nearest parts that a value depends on, through operations of the whole itself.
  void lead(value_id v, net_part::end to) {
    std::vector<value_id> open{v}, seen;
    while (!open.empty()) {
      const auto at = open.back();
      open.pop_back();
      if (std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
      seen.push_back(at);
      if (auto found = made_.find(at); found != made_.end()) {
        const net_part::edge e{found->second, to};
        if (std::find(whole_.edges.begin(), whole_.edges.end(), e) == whole_.edges.end()) whole_.edges.push_back(e);
      } else {
        const auto& in = owner_->at(at).inputs;
        open.insert(open.end(), in.rbegin(), in.rend());
      }
    }
  }
  const traced_layers& recorded_;
  net_part& whole_;
  std::vector<std::size_t> parts_;
  std::size_t self_;
  const program* owner_ = nullptr;
  std::map<value_id, net_part::end> made_;
};

// Adds shapes and inner parts that only a trace knows.
void complete(net_part& p, const std::string& path, const traced_layers& recorded) {
  if (const auto i = recorded.find(path); i < recorded.all.size()) {
    p.shapes = recorded.all[i].shapes;
    if (p.parts.empty() && recorded.all[i].has_parts && data_flow(recorded, path, p).connect())
      p.computes = recorded.all[i].computes;
  }
  for (auto& inner : p.parts) complete(inner, path.empty() ? inner.name : path + "." + inner.name, recorded);
}

std::string quoted(std::string_view s) {
  std::string q = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    if (c == '\n') q += "\\n";
    else q += c;
  }
  return q + "\"";
}

class drawing {
 public:
  drawing(const net_part& net, const model_definition* d) : net_(net), d_(d) {}
  std::string made() {
    out_ = "digraph net {\n  node [shape=box];\n";
    for (std::size_t i = 0; i < net_.inputs.size(); ++i) port("input ", net_.inputs[i], input_shape(net_.inputs[i]));
    nodes({&net_, nullptr, 0, ""}, "  ");
    for (std::size_t o = 0; o < net_.outputs.size(); ++o)
      port("output ", net_.outputs[o], d_ ? d_->outputs[o].type.dims.string() : std::string());
    edges({&net_, nullptr, 0, ""});
    const placed root{&net_, nullptr, 0, ""};
    for (std::size_t o = 0; o < net_.outputs.size(); ++o)
      for (const auto& from : origins(root, {net_part::whole, static_cast<int>(o)}, true))
        line(from, "output " + net_.outputs[o], net_.outputs[o]);
    return out_ + "}\n";
  }

 private:
  // A part with its parent, its index there, and its path.
  struct placed {
    const net_part* part;
    const placed* within;
    int index;
    std::string path;
    std::string id() const { return path.empty() ? "(" + part->kind + ")" : path; }
    bool cluster() const { return !part->parts.empty(); }
  };
  struct origin {
    std::string id, port;
    bool operator==(const origin&) const = default;
  };
  static placed inside(const placed& p, std::size_t i) {
    const auto& inner = p.part->parts[i];
    return {&inner, &p, static_cast<int>(i), p.path.empty() ? inner.name : p.path + "." + inner.name};
  }

  std::string input_shape(const std::string& name) const {
    if (d_)
      for (const auto& i : d_->inputs)
        if (i.name == name) return i.type.dims.string();
    return {};
  }
  void port(const std::string& side, const std::string& name, const std::string& dims) {
    out_ += "  " + quoted(side + name) + " [label=" + quoted(dims.empty() ? name : name + "\n" + dims) +
            ", shape=ellipse];\n";
  }
  void nodes(const placed& p, const std::string& margin) {
    const bool framed = p.cluster() && p.within;
    const auto deeper = framed ? margin + "  " : margin;
    if (framed) {
      out_ += margin + "subgraph " + quoted("cluster " + p.path) + " {\n";
      out_ += deeper + "label=" + quoted(p.path + "\n" + p.part->kind) + ";\n";
    }
    for (std::size_t i = 0; i < p.part->parts.size(); ++i) nodes(inside(p, i), deeper);
    if (!p.cluster() || p.part->computes)
      out_ += deeper + quoted(p.id()) + " [label=" +
              quoted((p.path.empty() ? "" : p.path + "\n") + p.part->kind +
                     (p.part->shapes.empty() ? "" : "\n" + p.part->shapes)) +
              "];\n";
    if (framed) out_ += margin + "}\n";
  }

  // Sources of the connections that end at `to` inside p. For results that p computes itself, the source is p.
  std::vector<origin> origins(const placed& p, net_part::end to, bool results) const {
    if (results && (!p.cluster() || p.part->computes))
      return {{p.id(), p.part->outputs[static_cast<std::size_t>(to.port)]}};
    std::vector<origin> found;
    for (const auto& e : p.part->edges) {
      if (!(e.to == to)) continue;
      std::vector<origin> more;
      if (e.from.part != net_part::whole)
        more = origins(inside(p, static_cast<std::size_t>(e.from.part)), {net_part::whole, e.from.port}, true);
      else more = feeders(p, e.from.port);
      for (auto& o : more)
        if (std::find(found.begin(), found.end(), o) == found.end()) found.push_back(std::move(o));
    }
    return found;
  }
  // Sources that feed an input of p.
  std::vector<origin> feeders(const placed& p, int port) const {
    const auto name = p.part->inputs[static_cast<std::size_t>(port)];
    if (!p.within) return {{"input " + name, name}};
    return origins(*p.within, {p.index, port}, false);
  }
  void line(const origin& from, const std::string& to, const std::string& port) {
    out_ += "  " + quoted(from.id) + " -> " + quoted(to) + " [label=" + quoted(from.port + " -> " + port) + "];\n";
  }
  void edges(const placed& p) {
    for (std::size_t i = 0; i < p.part->parts.size(); ++i) edges(inside(p, i));
    if (!p.cluster())
      for (std::size_t k = 0; k < p.part->inputs.size(); ++k)
        for (const auto& from : feeders(p, static_cast<int>(k))) line(from, p.id(), p.part->inputs[k]);
    else if (p.part->computes)
      for (std::size_t o = 0; o < p.part->outputs.size(); ++o)
        for (const auto& from : origins(p, {net_part::whole, static_cast<int>(o)}, false))
          line(from, p.id(), p.part->outputs[o]);
  }

  const net_part& net_;
  const model_definition* d_;
  std::string out_;
};

}  // namespace

std::string drawing_of(net_part net, const model_definition* d) {
  if (d) {
    traced_net traced;
    trace_net(*d, {}, traced);
    add_operations(traced.made, 1, traced.layers);
    complete(net, {}, traced.layers);
  }
  return drawing(net, d).made();
}

}  // namespace lamina::detail
