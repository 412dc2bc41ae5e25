// Operators with subgraphs: If, Loop, Scan.
module lamina.onnx:control.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

void take(node_call& c, std::vector<known_value> results) {
  if (results.size() != c.results.size())
    c.fail("its graph has ", results.size(), " outputs; expected ", c.results.size());
  c.results = std::move(results);
}

// Whether a branch is a single Squeeze, apart from constants: the pattern that exporters emit for squeezing an axis of
// unknown extent.
bool squeezes(const graph_message& g) {
  bool found = false;
  for (const auto& n : g.nodes) {
    if (n.op == "Squeeze" && !found) found = true;
    else if (n.op != "Constant") return false;
  }
  return found;
}
bool passes_on(const graph_message& g) {
  return std::all_of(g.nodes.begin(), g.nodes.end(), [](const auto& n) { return n.op == "Identity"; });
}
bool same_ranks(const subgraph& a, const subgraph& b) {
  for (std::size_t i = 0; i < a.results.size() && i < b.results.size(); ++i)
    if (a.results[i].dims.rank != b.results[i].dims.rank) return false;
  return true;
}
// Whether all extents are known, so that equal types imply equal extents.
bool knows_extents(const tensor_type& t) {
  for (int i = 0; i < t.dims.rank; ++i)
    if (t.dims[i] == dim(dyn)) return false;
  return true;
}

void choose(node_call& c) {
  const graph_message &then = c.graph("then_branch"), &otherwise = c.graph("else_branch");
  if (const auto known = c.known_integers(0); known && known->size() == 1)
    return take(c, c.inlined((*known)[0] != 0 ? then : otherwise));
  auto branches = c.subgraphs({&then, &otherwise}, {});
  if (!same_ranks(branches[0], branches[1])) {
    // The axis is assumed to have extent 1; planning rejects any other extent.
    if (squeezes(then) && passes_on(otherwise)) return take(c, c.inlined(then));
    c.unsupported("its branches have results of different ranks, and its condition is not a constant");
  }
  std::vector<value> operands = branches[0].captured;
  if (operands.empty()) {
    // `cond` needs at least one operand.
    operands.push_back(c[0]);
    for (auto& b : branches) b.body->input("predicate", c.type(0));
  }
  const auto give = [&](const std::vector<value>& made) {
    for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
  };
  const value predicate = lamina::reshape(c[0], shape{});
  const view<const value> all(operands);
  const auto on_host = [&] { give(lamina::host_cond(predicate, branches[0].body, branches[1].body, all)); };
  for (const auto& b : branches)
    for (const auto& e : b.open)
      if (e) c.unsupported("a branch returns an empty sequence of unknown rank");
  if (branches[0].results == branches[1].results &&
      std::all_of(branches[0].results.begin(), branches[0].results.end(), knows_extents)) {
    try {
      return give(lamina::cond(predicate, branches[0].body, branches[1].body, all));
    } catch (const unsupported_error&) { return on_host(); }
  }
  on_host();
}

// Opens the extents of a carry that an iteration changes; false if nothing changes.
bool relax(node_call& c, tensor_type& carry, const tensor_type& next) {
  if (carry.element != next.element || carry.kind != next.kind)
    c.fail("a loop-carried value changes its type from ", carry, " to ", next);
  if (carry.dims.rank != next.dims.rank)
    c.unsupported("a loop-carried value changes its rank from ", carry, " to ", next);
  bool changed = false;
  for (int i = 0; i < carry.dims.rank; ++i)
    if (carry.dims[i] != next.dims[i] && carry.dims[i] != dim(dyn)) carry.dims[i] = dyn, changed = true;
  return changed;
}

// The carries of a loop, and its body program.
struct iterations {
  std::vector<tensor_type> types{{dtype::int64, {}}, {dtype::boolean, {}}};
  std::vector<std::optional<dtype>> open{{}, {}};
  subgraph inside{};
};
// Relaxes the carry types until they are stable under the body.
iterations stable_carries(node_call& c, const graph_message& body, std::size_t carries) {
  iterations all;
  for (std::size_t i = 2; i < 2 + carries; ++i) {
    if (!c.has(i)) c.fail("operand ", i, ", a loop-carried value, is missing");
    all.open.push_back(c.operand(i).open_sequence);
    all.types.push_back(all.open.back() ? tensor_type{} : c.type(i));
  }
  for (bool changed = true; changed;) {
    all.inside = c.subgraphs({&body}, all.types, all.open)[0];
    changed = false;
    for (std::size_t i = 2; i < 2 + carries; ++i) {
      const auto& next = all.inside.results[i - 1];
      if (!all.open[i]) {
        if (all.inside.open[i - 1]) c.unsupported("a loop-carried sequence becomes empty");
        changed = relax(c, all.types[i], next) || changed;
      } else if (!all.inside.open[i - 1]) {
        all.types[i] = next;
        for (int k = 0; k < next.dims.rank; ++k) all.types[i].dims[k] = dyn;
        all.open[i].reset();
        changed = true;
      }
    }
  }
  return all;
}

// ---- loops that run to their end ------------------------------------------------------------------------------------

// Whether the body returns the condition that it was given, or true.
bool always_continues(const program& body) {
  const value_id next = body.outputs()[0].value;
  const node& n = body.at(next);
  if (n.kind == node_kind::input) return next.node == body.inputs()[1];
  return n.kind == node_kind::constant && n.results[0] == tensor_type{dtype::boolean, {}} &&
         n.constant.data()[0] != std::byte{};
}
// Whether a loop of tensors with known extents runs as often as its trip count says, which follows from shapes.
bool runs_to_its_end(const node_call& c, const iterations& all) {
  constexpr std::int64_t max_trips = 1 << 20;
  const auto is_fixed = [](const tensor_type& t) { return t.is_tensor() && knows_extents(t); };
  if (!c.has(0)) return false;
  if (const auto known = c.known_integers(0)) {
    if (known->size() != 1 || (*known)[0] > max_trips) return false;
  } else if (const auto& shapes = c.extents(0); !shapes || shapes->size() != 1 || (*shapes)[0] == dim(dyn))
    return false;
  if (c.has(1))
    if (const auto known = c.known_integers(1); !known || known->size() != 1 || (*known)[0] == 0) return false;
  return std::all_of(all.types.begin(), all.types.end(), is_fixed) &&
         std::all_of(all.inside.results.begin(), all.inside.results.end(), is_fixed) &&
         std::all_of(all.inside.captured.begin(), all.inside.captured.end(),
                     [](const value& v) { return v.type().is_tensor(); }) &&
         always_continues(*all.inside.body);
}
// The loop as a scan over the numbers of its iterations.
std::vector<value> scanned(node_call& c, const iterations& all, view<const value> first, const value& trips) {
  auto body = std::make_shared<program>();
  std::vector<value> in(2);
  for (std::size_t i = 2; i < all.types.size(); ++i) in.push_back(body->input("carry", all.types[i]));
  in[0] = body->input("iteration", all.types[0]);
  in[1] = body->number(1.0, dtype::boolean);
  for (const auto& v : all.inside.captured) in.push_back(body->input("same", v.type()));
  const auto results = body->inlined(*all.inside.body, in);
  for (std::size_t i = 1; i < results.size(); ++i) body->output("result", results[i]);
  const value numbers = lamina::arange(c.constant(0.0, dtype::int64), trips, c.constant(1.0, dtype::int64));
  return lamina::scan(body, first, {&numbers, 1}, view<const value>(all.inside.captured));
}

void loop(node_call& c) {
  const graph_message& body = c.graph("body");
  if (body.inputs.size() < 2 || body.outputs.size() + 1 < body.inputs.size())
    c.fail("its graph has ", body.inputs.size(), " inputs and ", body.outputs.size(), " outputs");
  const std::size_t carries = body.inputs.size() - 2;
  const auto all = stable_carries(c, body, carries);
  std::vector<value> first;
  for (std::size_t i = 2; i < 2 + carries; ++i) {
    if (all.open[i]) c.unsupported("a loop-carried sequence is always empty");
    tensor_type of = all.types[i];
    of.kind = value_kind::tensor;
    first.push_back(c.operand(i).open_sequence ? lamina::sequence_empty(c.p, of) : c[i]);
  }
  if (!c.has(0) && !c.has(1)) c.fail("it has neither a trip count nor a condition, and would never end");
  const auto give = [&](const std::vector<value>& made) {
    for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
  };
  host_loop_bounds bounds;
  if (c.has(0)) bounds.trips = lamina::reshape(c.cast_to(c[0], dtype::int64), shape{});
  if (runs_to_its_end(c, all)) {
    try {
      return give(scanned(c, all, view<const value>(first), bounds.trips));
    } catch (const unsupported_error&) {}  // the body has operations of the host, or extents that a run determines
  }
  if (c.has(1)) bounds.condition = lamina::reshape(c[1], shape{});
  give(lamina::host_loop(bounds, all.inside.body, view<const value>(first), view<const value>(all.inside.captured)));
}

constexpr converter_entry entries[] = {
    {"If", 1, choose, false},
    {"Loop", 1, loop, false},
};

}  // namespace

converter_list control_converters() { return entries; }

}  // namespace lamina::onnx
