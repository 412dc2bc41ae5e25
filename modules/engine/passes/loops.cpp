// Scans: merges those with equal carries, inlines those of one iteration, moves what never changes before the loop.
module lamina:passes.loops;
import :core;
import :op;
import :op.control;
import :op.shape;
import :passes;
import :program;
import :rewriter;
import :shape;
import lamina.std;

namespace lamina {

// Scans of the same operands that become one, and where their results are.
struct joined_loop {
  std::shared_ptr<const program> body;
  std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>>
      members;  // node, and the merged result of each of its results or -1
};

// Merges scans with equal operands and carries, such as a scan and the one its gradient reads; drops dead results.
// Keyed by the first node.
std::map<std::int32_t, joined_loop> joined_loops(const program& p, const std::vector<char>& needed) {
  std::map<std::int32_t, joined_loop> found;
  std::set<value_id> read;
  std::vector<std::int32_t> scans;
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    if (!needed[i]) continue;
    const node& n = p.nodes()[i];
    for (auto v : n.inputs) read.insert(v);
    if (is_call_of<op::scan>(n)) scans.push_back(static_cast<std::int32_t>(i));
  }
  for (const auto& o : p.outputs()) read.insert(o.value);
  for (const auto& a : p.assignments()) read.insert(a.value);

  std::vector<char> taken(scans.size());
  for (std::size_t first = 0; first < scans.size(); ++first) {
    if (taken[first]) continue;
    const node& leader = p.at(scans[first]);
    const auto carries = static_cast<std::size_t>(leader.attributes_as<scan_attributes>().carries);
    auto body = std::make_shared<program>();
    std::vector<value> inputs;
    for (auto i : leader.subprograms[0]->inputs())
      inputs.push_back(body->input(leader.subprograms[0]->at(i).name, leader.subprograms[0]->at(i).results[0]));
    std::vector<value> common = body->inlined(*leader.subprograms[0], inputs);
    common.resize(carries);
    std::vector<value> outputs = common;
    joined_loop joint;
    for (std::size_t k = first; k < scans.size(); ++k) {
      const node& n = p.at(scans[k]);
      if (taken[k] || n.inputs != leader.inputs || !n.op->equal(n.attributes.get(), leader.attributes.get())) continue;
      auto inlined_results = body->inlined(*n.subprograms[0], inputs);
      bool agree = true;
      for (std::size_t c = 0; c < carries; ++c) agree = agree && inlined_results[c].same(common[c]);
      if (!agree) continue;
      taken[k] = 1;
      std::vector<std::int32_t> places;
      for (std::size_t r = 0; r < inlined_results.size(); ++r) {
        std::int32_t place = -1;
        if (r < carries) place = static_cast<std::int32_t>(r);
        else if (read.contains({scans[k], static_cast<std::int32_t>(r)})) {
          auto at = std::find_if(outputs.begin() + static_cast<std::ptrdiff_t>(carries), outputs.end(),
                                 [&](const value& v) { return v.same(inlined_results[r]); });
          if (at == outputs.end()) at = outputs.insert(at, inlined_results[r]);
          place = static_cast<std::int32_t>(at - outputs.begin());
        }
        places.push_back(place);
      }
      joint.members.emplace_back(scans[k], std::move(places));
    }
    body->path.clear();
    for (const auto& v : outputs) body->output("result", v);
    joint.body = std::move(body);
    found[scans[first]] = std::move(joint);
  }
  return found;
}

// A scan's body without the operations that read loop invariants alone, and the operands of the scan.
struct divided_loop {
  std::shared_ptr<const program> body;  // null: nothing was moved
  std::vector<value> operands;
};

// What becomes of each node of a scan's body.
struct body_division {
  std::vector<char> moved;  // computed once, before the loop
  std::vector<char> read;   // read by an operation that stays, or a result
};

// The operations of a body from whose elements it takes shapes. They stay: planning must find them in the body.
std::vector<char> shape_deciding(const program& body, const std::vector<char>& needed) {
  std::vector<char> found(body.nodes().size());
  for (std::size_t i = body.nodes().size(); i-- > 0;) {
    const node& n = body.nodes()[i];
    if (n.kind != node_kind::operation || !needed[i]) continue;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (found[i] || n.op->decides_shape(k)) found[static_cast<std::size_t>(n.inputs[k].node)] = 1;
  }
  return found;
}

// Moves pure operations on invariants and constants. What is larger than its operands and costs next to nothing, such as
// a broadcast, stays if the loop reads it: the loop would read more memory than before.
body_division division_of(const program& body, std::size_t first_invariant) {
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  const auto needed = body.reachable();
  const auto stays = shape_deciding(body, needed);
  const std::size_t count = body.nodes().size();
  std::vector<char> invariant(count), read_before(count);
  body_division d{std::vector<char>(count), std::vector<char>(count)};
  for (const auto& o : body.outputs()) d.read[at(o.value.node)] = 1;
  for (std::size_t i = first_invariant; i < body.inputs().size(); ++i) invariant[at(body.inputs()[i])] = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const node& n = body.nodes()[i];
    if (n.kind == node_kind::constant) invariant[i] = 1;
    if (n.kind != node_kind::operation || !needed[i]) continue;
    d.moved[i] = !d.read[i] && !stays[i] && n.op->pure && !n.op->may_fail && !n.op->host && n.subprograms.empty() &&
                 n.results.size() == 1 && n.results[0].dims.is_static() && !n.inputs.empty() &&
                 std::all_of(n.inputs.begin(), n.inputs.end(),
                             [&](value_id v) { return invariant[at(v.node)] && body.type(v).dims.is_static(); });
    invariant[i] = d.moved[i];
  }
  for (std::size_t i = count; i-- > 0;) {
    const node& n = body.nodes()[i];
    if (n.kind != node_kind::operation || !needed[i]) continue;
    if (d.moved[i] && d.read[i] && !read_before[i]) {
      std::vector<tensor_type> in;
      std::int64_t largest = 0;
      for (auto v : n.inputs) largest = std::max(largest, in.emplace_back(body.type(v)).dims.size());
      const std::int64_t size = n.results[0].dims.size();
      d.moved[i] = size <= largest || n.op->flops(n.attributes.get(), in, n.results) > static_cast<double>(size);
    }
    for (auto v : n.inputs) (d.moved[i] ? read_before : d.read)[at(v.node)] = 1;
  }
  return d;
}

// Moves the operations that read loop invariants alone before the loop, which then takes their results and no longer the
// operands that only they read. `add(node, operands)` adds one to `into`, which contains the operands, and returns its
// result.
template <class F> divided_loop divided(const program& body, view<const value> operands, std::size_t first_invariant,
                                        program& into, F add) {
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  const auto [moved, read] = division_of(body, first_invariant);
  if (std::find(moved.begin(), moved.end(), 1) == moved.end()) return {};
  auto inside = std::make_shared<program>();
  inside->path = body.path;
  inside->common_subexpressions = body.common_subexpressions;
  divided_loop made{inside, {}};
  rewriter copy(body, *inside);
  std::vector<value> before(body.nodes().size());
  const auto take = [&](std::int32_t i) {
    copy.set({i, 0}, inside->input(body.at(i).name, body.at(i).results[0]));
    made.operands.push_back(before[at(i)]);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto input = body.inputs()[i];
    before[at(input)] = operands[i];
    if (i < first_invariant || read[at(input)]) take(input);
  }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(body.nodes().size()); ++i) {
    const node& n = body.at(i);
    if (n.kind == node_kind::input) continue;
    if (!moved[at(i)]) {
      if (read[at(i)]) copy.copy(i);
      continue;
    }
    std::vector<value> in;
    for (auto v : n.inputs) {
      value& x = before[at(v.node)];
      if (x.empty()) x = into.constant(body.at(v));
      in.push_back(x);
    }
    before[at(i)] = add(n, in);
    if (read[at(i)]) take(i);
  }
  copy.roots();
  return made;
}

// Inlines a scan of one iteration.
std::vector<value> single_iteration(program& into, const node& scan, view<const value> in,
                                    const std::vector<tensor_type>& inside, const program& body,
                                    pass_counters& counters) {
  std::vector<tensor_type> operands, results;
  for (const auto& v : in) operands.push_back(v.type());
  for (const auto& o : body.outputs()) results.push_back(body.type(o.value));
  text why;
  scan.op->outside(scan.attributes.get(), operands, results, why);
  if (!why.empty()) {
    text w;
    if (!into.path.empty()) w << into.path << ": ";
    detail::raise(error_kind::shape, w << "scan: " << why);
  }
  ++counters.inlined_calls;
  auto under = [](const value& v, const shape& dims) { return v.shape() == dims ? v : value(reshape(v, dims)); };
  std::vector<value> given;
  for (std::size_t i = 0; i < in.size(); ++i) given.push_back(under(in[i], inside[i].dims));
  auto made = into.inlined(body, given);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = under(made[i], results[i].dims);
  return made;
}

}  // namespace lamina
