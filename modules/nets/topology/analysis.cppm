// Analysis of a topology's names and connections: ordinary code over plain structs, run once per topology by the
// compiler. Names are labels of three words and ports are views, because constant evaluation pays per array element;
// sentences are made only when something is wrong.
export module lamina:topology.analysis;
import :core;
import :layer;
import lamina.std;

namespace lamina {

// ---- connections ----------------------------------------------------------------------------------------------------

/// One end of a connection: a port of a sublayer or, where `node` is empty, a port of the topology itself.
struct endpoint {
  label node, port;
};
/// From an output of a sublayer (or an input of the topology) to an input of a sublayer (or an output of the topology).
/// An empty `to` states that an output is not used.
struct connection {
  endpoint from, to;
};

// `sublayer.port` or `port`, each part 1 to 24 characters.
consteval void check_endpoint(std::string_view spec, text& t) {
  auto dot = spec.find('.');
  auto node = dot == std::string_view::npos ? std::string_view("x") : spec.substr(0, dot);
  auto port = dot == std::string_view::npos ? spec : spec.substr(dot + 1);
  if (node.empty() || port.empty() || port.find('.') != std::string_view::npos)
    t << "`" << spec << "` is not a port; write `sublayer.port`, or `port` for a port of the topology itself";
  else if (node.size() > label::limit || port.size() > label::limit)
    t << "`" << (node.size() > label::limit ? node : port) << "` is longer than " << label::limit << " characters";
}
consteval endpoint parse_endpoint(std::string_view spec) {
  auto dot = spec.find('.');
  if (dot == std::string_view::npos) return {{}, spec};
  return {spec.substr(0, dot), spec.substr(dot + 1)};
}
consteval text mismatch_of_ends(std::initializer_list<std::string_view> ends) {
  text t;
  for (auto e : ends)
    if (t.empty()) check_endpoint(e, t);
  return t;
}
template <fixed_string... Ends> struct connection_check {
  static consteval text message() { return mismatch_of_ends({Ends.view()...}); }
};
/// Connects two ports: `connect<"dot.output", "output">`. A name without a dot is a port of the topology itself.
export template <fixed_string From, fixed_string To> requires no_error<connection_check<From, To>>
inline constexpr connection connect{parse_endpoint(From.view()), parse_endpoint(To.view())};

template <fixed_string From> struct discard_check {
  static consteval text message() {
    text t = connection_check<From>::message();
    if (t.empty() && From.view().find('.') == std::string_view::npos)
      t << "discard: `" << From.view() << "` is not a port of a sublayer; write `sublayer.port`";
    return t;
  }
};
/// States that an output of a sublayer is not used: `discard<"split.rest">`.
export template <fixed_string From> requires no_error<discard_check<From>>
inline constexpr connection discard{parse_endpoint(From.view()), {}};

// ---- the result -----------------------------------------------------------------------------------------------------

/// What feeds a port: an output port of a sublayer, or an input of the topology.
struct source {
  static constexpr int nothing = -2, topology_input = -1;
  int node = nothing;
  int port = 0;
  constexpr bool is_input() const { return node == topology_input; }
};

// Facts about a sublayer.
struct node_view {
  label name;
  std::string_view kind;
  view<const label> in, out;
};

// Where the analysis writes; ports of all sublayers stand in flat arrays, `first_in` and `first_out` say where each
// begins.
struct wiring_view {
  view<int> order, first_in, first_out;
  view<source> feeds, result;
  view<label> inputs, outputs;
  int input_count = 0, output_count = 0;
  text* why = nullptr;
};

constexpr text& operator<<(text& t, const endpoint& e) {
  t << "`";
  if (!e.node.empty()) t << e.node << ".";
  return t << e.port << "`";
}
constexpr int index_of(view<const label> names, const label& n) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == n) return static_cast<int>(i);
  return -1;
}

// ---- the analysis ---------------------------------------------------------------------------------------------------

// Each step returns false after writing a message.
struct topology_analysis {
  view<const node_view> nodes;
  view<const connection> edges;
  wiring_view& out;
  text& why;
  int count;
  work_array<int> by_name;
  work_array<source> fed;      // per input port of all sublayers
  work_array<bool> used;       // per output port of all sublayers
  work_array<int> waiting;     // per sublayer: inputs that come from sublayers not yet placed
  work_array<int> head, next;  // connections by the sublayer they come from, as linked lists
  work_array<int> target;      // per connection: the sublayer it leads to

  static constexpr std::size_t ports(view<const node_view> nodes, bool in) {
    std::size_t n = 0;
    for (auto& node : nodes) n += in ? node.in.size() : node.out.size();
    return n;
  }
  constexpr topology_analysis(view<const node_view> n, view<const connection> e, wiring_view& o, text& w)
      : nodes(n),
        edges(e),
        out(o),
        why(w),
        count(static_cast<int>(n.size())),
        by_name(n.size()),
        fed(ports(n, true)),
        used(ports(n, false)),
        waiting(n.size()),
        head(n.size()),
        next(e.size()),
        target(e.size()) {
    int in = 0, results = 0;
    for (int i = 0; i < count; ++i) {
      out.first_in[at(i)] = in;
      out.first_out[at(i)] = results;
      in += static_cast<int>(node(i).in.size());
      results += static_cast<int>(node(i).out.size());
      head[i] = -1;
    }
  }
  // constexpr, not constexpr: the sort below calls them from functions of the standard library, which must be able to.
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
  constexpr const node_view& node(int i) const { return nodes[at(i)]; }

  constexpr bool names_differ() {
    if (!count) {
      why << "a topology needs at least one sublayer";
      return false;
    }
    for (int i = 0; i < count; ++i) by_name[i] = i;
    std::sort(by_name.data, by_name.data + count, [&](int a, int b) { return node(a).name < node(b).name; });
    for (int i = 1; i < count; ++i)
      if (node(by_name[i]).name == node(by_name[i - 1]).name) {
        why << "two sublayers are named `" << node(by_name[i]).name << "`";
        return false;
      }
    return true;
  }
  constexpr int find(const label& name) {
    int low = 0, high = count;
    while (low < high) {
      int middle = (low + high) / 2;
      if (node(by_name[middle]).name < name) low = middle + 1;
      else high = middle;
    }
    return low < count && node(by_name[low]).name == name ? by_name[low] : -1;
  }

  // A chain: each sublayer has one input and one output, and feeds the next.
  constexpr bool chain() {
    if (!names_differ()) return false;
    for (int i = 0; i < count; ++i)
      if (node(i).in.size() != 1 || node(i).out.size() != 1) {
        bool in = node(i).in.size() != 1;
        auto& ports = in ? node(i).in : node(i).out;
        why << "sublayer `" << node(i).name << "` (" << node(i).kind << ") has " << ports.size()
            << (in ? " inputs" : " outputs");
        if (!ports.empty()) {
          why << ":";
          list_names(why, ports);
        }
        why << "; in sequential(...) each sublayer has one input and one output; otherwise use topology(...)";
        return false;
      }
    for (int i = 0; i < count; ++i) {
      out.order[at(i)] = i;
      out.feeds[at(i)] = {i - 1, 0};
    }
    out.inputs[0] = label("input");
    out.outputs[0] = label("output");
    out.input_count = out.output_count = 1;
    out.result[0] = {count - 1, 0};
    return true;
  }

  constexpr text& about(const connection& c) {
    why << "connection " << c.from;
    if (!c.to.port.empty()) why << " -> " << c.to;
    return why << ": ";
  }
  constexpr bool no_such(const connection& c, const label& name) {
    about(c) << "there is no sublayer `" << name << "`; the sublayers are:";
    for (int i = 0; i < count && i < 12; ++i) why << (i ? ", `" : " `") << node(i).name << "`";
    if (count > 12) why << ", ... (" << count << ")";
    return false;
  }
  constexpr bool no_such_port(const connection& c, int i, const label& port, bool in) {
    auto& ports = in ? node(i).in : node(i).out;
    std::string_view side = in ? "input" : "output";
    about(c) << "sublayer `" << node(i).name << "` (" << node(i).kind << ") has no " << side << " port `" << port
             << "`; its " << side << " ports are:";
    list_names(why, ports);
    return false;
  }
  // A name without a dot that is a sublayer's: the port was forgotten.
  constexpr bool forgot_port(const connection& c, const label& name, bool in) {
    int i = find(name);
    if (i < 0) return false;
    about(c) << "`" << name << "` is a sublayer; name its " << (in ? "input" : "output") << " port:";
    for (auto& p : in ? node(i).in : node(i).out) why << " `" << name << "." << p << "`";
    return true;
  }

  constexpr bool resolve_from(const connection& c, source& s) {
    if (c.from.node.empty()) {
      auto known = view<const label>(out.inputs.data(), at(out.input_count));
      s = {source::topology_input, index_of(known, c.from.port)};
      if (s.port >= 0) return true;
      if (forgot_port(c, c.from.port, false)) return false;
      s.port = out.input_count;
      out.inputs[at(out.input_count++)] = c.from.port;
      return true;
    }
    s.node = find(c.from.node);
    if (s.node < 0) return no_such(c, c.from.node);
    s.port = index_of(node(s.node).out, c.from.port);
    if (s.port < 0) return no_such_port(c, s.node, c.from.port, false);
    used[out.first_out[at(s.node)] + s.port] = true;
    return true;
  }
  constexpr bool feed_output(const connection& c, const source& s) {
    if (index_of(view<const label>(out.outputs.data(), at(out.output_count)), c.to.port) >= 0) {
      about(c) << "output `" << c.to.port << "` is fed twice";
      return false;
    }
    if (forgot_port(c, c.to.port, true)) return false;
    out.outputs[at(out.output_count)] = c.to.port;
    out.result[at(out.output_count++)] = s;
    return true;
  }
  constexpr bool feed_input(const connection& c, const source& s, int edge) {
    int d = find(c.to.node);
    if (d < 0) return no_such(c, c.to.node);
    int p = index_of(node(d).in, c.to.port);
    if (p < 0) return no_such_port(c, d, c.to.port, true);
    source& f = fed[out.first_in[at(d)] + p];
    if (f.node != source::nothing) {
      about(c) << "input port " << c.to << " is fed twice, the first time by " << endpoint_of(f);
      return false;
    }
    f = s;
    if (s.is_input()) return true;
    next[edge] = head[s.node];
    head[s.node] = edge;
    target[edge] = d;
    ++waiting[d];
    return true;
  }
  constexpr endpoint endpoint_of(const source& s) {
    if (s.is_input()) return {{}, out.inputs[at(s.port)]};
    return {node(s.node).name, node(s.node).out[at(s.port)]};
  }
  constexpr bool connections() {
    int edge = 0;
    for (auto& c : edges) {
      source s;
      if (!resolve_from(c, s)) return false;
      if (!c.to.node.empty()) {
        if (!feed_input(c, s, edge)) return false;
      } else if (!c.to.port.empty() && !feed_output(c, s)) return false;
      ++edge;
    }
    return true;
  }

  constexpr bool sublayers_are_connected() {
    for (int i = 0; i < count; ++i) {
      bool any = false;
      for (std::size_t p = 0; p < node(i).in.size(); ++p)
        any = any || fed[at(out.first_in[at(i)]) + p].node != source::nothing;
      for (std::size_t p = 0; p < node(i).out.size(); ++p) any = any || used[at(out.first_out[at(i)]) + p];
      if (any) continue;
      why << "sublayer `" << node(i).name << "` (" << node(i).kind << ") is not connected";
      return false;
    }
    return true;
  }
  constexpr bool inputs_are_fed() {
    for (int i = 0; i < count; ++i)
      for (std::size_t p = 0; p < node(i).in.size(); ++p) {
        if (fed[at(out.first_in[at(i)]) + p].node != source::nothing) continue;
        why << "input port `" << node(i).name << "." << node(i).in[p] << "` is not fed";
        return false;
      }
    return true;
  }
  constexpr bool outputs_are_used() {
    if (!out.output_count) {
      why << "the topology has no output; connect a port to a name without a dot, as in `" << node(count - 1).name
          << ".";
      why << (node(count - 1).out.empty() ? label("output") : node(count - 1).out[0]) << "` -> `output`";
      return false;
    }
    for (int i = 0; i < count; ++i)
      for (std::size_t p = 0; p < node(i).out.size(); ++p) {
        if (used[at(out.first_out[at(i)]) + p]) continue;
        why << "output port `" << node(i).name << "." << node(i).out[p] << "` is not used; connect it or `discard` it";
        return false;
      }
    return true;
  }

  constexpr bool place() {
    work_array<int> ready(at(count));
    int pending = 0, placed = 0;
    for (int i = count; i-- > 0;)
      if (!waiting[i]) ready[pending++] = i;
    while (pending) {
      int i = ready[--pending];
      out.order[at(placed++)] = i;
      for (int e = head[i]; e >= 0; e = next[e])
        if (!--waiting[target[e]]) ready[pending++] = target[e];
    }
    if (placed == count) return true;
    name_cycle();
    return false;
  }
  // From a sublayer that was not placed, walk backwards among such until one repeats.
  constexpr void name_cycle() {
    int i = 0, length = 0;
    while (!waiting[i]) ++i;
    work_array<int> seen(at(count)), path(at(count));
    while (!seen[i]) {
      path[length++] = i;
      seen[i] = length;
      i = unplaced_source(i);
    }
    why << "cycle: " << node(i).name;
    for (int k = length; k-- > seen[i] - 1;) why << " -> " << node(path[k]).name;
  }
  constexpr int unplaced_source(int i) {
    for (std::size_t p = 0; p < node(i).in.size(); ++p) {
      auto& s = fed[at(out.first_in[at(i)]) + p];
      if (s.node >= 0 && waiting[s.node]) return s.node;
    }
    return i;
  }

  constexpr bool graph() {
    if (!names_differ() || !connections() || !sublayers_are_connected() || !inputs_are_fed() || !outputs_are_used() ||
        !place())
      return false;
    for (std::size_t i = 0; i < fed.size; ++i) out.feeds[i] = fed[i];
    return true;
  }
};

/// Finds order, wiring and ports of a topology, or writes what is wrong with it.
constexpr bool analyze(view<const node_view> nodes, view<const connection> edges, bool chain, wiring_view& out,
                       text& why) {
  topology_analysis a(nodes, edges, out, why);
  return chain ? a.chain() : a.graph();
}

}  // namespace lamina
