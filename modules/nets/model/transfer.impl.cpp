module lamina:transfer.impl;
import :core;
import :dtype;
import :io;
import :model;
import :parameter;
import :parameter.naming;
import :program;
import :rewriter;
import :saved;
import :shape;
import :tensor;
import :transfer;
import lamina.std;

namespace lamina {

std::vector<std::string> set_trainable(parameter_store& all, view<const std::string_view> patterns, bool on) {
  const auto taken = [](const parameter& p) {
    return p.role() == state_role::parameter && is_real(p.value().element());
  };
  std::vector<std::string> names;
  for (const auto& p : all)
    if (taken(p)) names.push_back(p.name());
  auto found = names_that_fit(on ? "unfreeze" : "freeze", patterns, "parameter", names);
  bool changes = false;
  for (const auto& n : found) {
    parameter& p = *all.find(n);
    changes = changes || p.trainable() != on;
    p.trainable(on);
  }
  if (changes) all.renew();
  return found;
}

// ---- heads ----------------------------------------------------------------------------------------------------------

namespace {
// The input and the output of a head.
struct head_of_net {
  value_id features;
  std::size_t output = 0;  // index of the net's output that the head computes
};

head_of_net find_head(const program& p, std::string_view pattern) {
  text t;
  const auto needed = p.reachable();
  std::vector<std::string> names;
  std::vector<char> inside(p.nodes().size()), weights_alone(p.nodes().size());
  std::set<value_id> taken;
  bool found = false;
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    const node& n = p.nodes()[i];
    if (!needed[i]) continue;
    if (n.kind == node_kind::state) {
      names.push_back(n.name);
      found |= inside[i] = matches(pattern, n.name);
    }
    weights_alone[i] = n.kind == node_kind::state || n.kind == node_kind::constant;
    if (n.kind != node_kind::operation) continue;
    weights_alone[i] = std::all_of(n.inputs.begin(), n.inputs.end(),
                                   [&](value_id v) { return weights_alone[static_cast<std::size_t>(v.node)]; });
    inside[i] = std::any_of(n.inputs.begin(), n.inputs.end(),
                            [&](value_id v) { return inside[static_cast<std::size_t>(v.node)]; });
    for (std::size_t k = 0; inside[i] && k < n.inputs.size(); ++k) {
      const auto from = static_cast<std::size_t>(n.inputs[k].node);
      if (n.reads_data(k) && !inside[from] && !weights_alone[from]) taken.insert(n.inputs[k]);
    }
  }
  if (!found) refuse_pattern("head", pattern, "state that the net reads", names);
  std::vector<std::size_t> outputs;
  for (std::size_t o = 0; o < p.outputs().size(); ++o)
    if (inside[static_cast<std::size_t>(p.outputs()[o].value.node)]) outputs.push_back(o);
  if (outputs.size() != 1)
    detail::raise(error_kind::value,
                  t << "head: " << outputs.size() << " outputs depend on states of `" << pattern << "`; expected one");
  if (taken.size() != 1)
    detail::raise(error_kind::value, t << "head: the part that depends on states of `" << pattern << "` takes "
                                       << taken.size() << " values of the net; expected one");
  return {*taken.begin(), outputs[0]};
}
}  // namespace

saved_net detail::with_head(const saved_net& net, std::string_view pattern, const head_options& o,
                            const std::function<value(const trace_scope&, const value& features)>& head) {
  text t;
  if (!net.program) raise(error_kind::state, "head: the net has no program; it may have been moved from");
  const program& p = *net.program;
  if (!p.assignments().empty())
    raise(error_kind::unsupported,
          t << "head: the net assigns state `" << printable(p.at(p.assignments()[0].state).name) << "` when it runs");
  const head_of_net old = find_head(p, pattern);
  auto made = std::make_shared<program>();
  rewriter copy(p, *made);
  copy.copy_inputs();
  const value features = copy.reach(old.features);
  for (std::size_t i = 0; i < p.outputs().size(); ++i)
    if (i != old.output) copy.reach(p.outputs()[i].value);
  saved_net result;
  for (auto n : made->states())
    if (!net.states.find(made->at(n).name))
      raise(error_kind::state, t << "head: state `" << printable(made->at(n).name) << "` of the net is missing");
  for (const auto& each : net.states)
    if (made->find_state(each.name()) >= 0) result.states.add(each.name(), each.copy(), each.role(), each.trainable());
  // Trace the head alone first to create its parameters; in the net, a duplicate name would silently reuse the existing
  // state.
  parameter_store fresh;
  program alone;
  trace_walk walk_alone{alone, fresh, o.seed, features.type().element};
  head(trace_scope(walk_alone), alone.input("features", features.type()));
  for (const auto& each : fresh)
    if (result.states.find(each.name()))
      raise(error_kind::state,
            t << "head: the net has a state `" << each.name() << "` already; give the head another name");
  trace_walk walk{*made, fresh, o.seed, features.type().element};
  const value end = head(trace_scope(walk), features);
  made->path.clear();
  for (const auto& each : fresh) result.states.add(each.name(), each.copy(), each.role(), each.trainable());
  for (std::size_t i = 0; i < p.outputs().size(); ++i)
    made->output(p.outputs()[i].name, i == old.output ? end : copy.at(p.outputs()[i].value));
  result.program = std::move(made);
  result.metadata = net.metadata;
  return result;
}

saved_net without_head(const saved_net& net, std::string_view pattern) {
  return detail::with_head(net, pattern, {}, [](const trace_scope&, const value& features) { return features; });
}

}  // namespace lamina
