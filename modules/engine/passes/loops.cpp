// Scans: merges those with equal carries, inlines those of one iteration.
module lamina:passes.loops;
import :core;
import :op;
import :op.control;
import :op.shape;
import :passes;
import :program;
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
