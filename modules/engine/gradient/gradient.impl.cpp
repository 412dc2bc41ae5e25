module lamina:gradient.impl;
import :core;
import :dtype;
import :gradient;
import :op;
import :op.elementwise;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

/// What a rule gives for operand k, which is added to other gradients of that operand and reaches memory of its size. The
/// extents of rules of users that are not known yet are compared when a plan is made.
value checked(program& p, const node& n, std::size_t k, const value& operand, const value& found) {
  text t;
  if (!n.path.empty()) t << n.path << ": ";
  t << n.op->name << ": its gradient for operand " << k << " is ";
  if (&found.owner() != &p) detail::raise(error_kind::value, t << "a value of another program");
  const tensor_type &wanted = operand.type(), &given = found.type();
  if (wanted.element != given.element || !fits(wanted.dims, given.dims))
    detail::raise(wanted.element != given.element ? error_kind::type : error_kind::shape,
                  t << given << ", and the operand is " << wanted);
  if (n.op->library || surely_equal(wanted.dims, given.dims)) return found;
  text where;
  if (!n.path.empty()) where << n.path << ": ";
  const path_of here(p, (where << "gradient of " << n.op->name << " for operand " << k).string());
  return apply<op::gradient_like>({}, found, operand);
}

}  // namespace

std::vector<value> gradients(program& p, view<const value> of, view<const value> start,
                             view<const value> with_respect_to) {
  const auto count = p.nodes().size();
  // Which nodes lead to a wanted value: only through them gradients have to flow.
  std::vector<char> leads(count);
  for (const auto& w : with_respect_to) leads[static_cast<std::size_t>(w.id().node)] = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const node& n = p.nodes()[i];
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k) && leads[static_cast<std::size_t>(n.inputs[k].node)]) leads[i] = 1;
  }

  std::map<value_id, value> arrived;  // sum of the gradients that have reached a value so far
  auto arrive = [&](value_id at, const value& g) {
    auto [found, fresh] = arrived.try_emplace(at, g);
    if (!fresh) found->second = found->second + g;
  };
  for (std::size_t i = 0; i < of.size(); ++i) {
    value one = i < start.size() ? start[i] : value(broadcast_like(p.number(1.0, of[i].type().element), of[i]));
    if (of[i].shape() == shape{} && i >= start.size()) one = p.number(1.0, of[i].type().element);
    arrive(of[i].id(), one);
  }

  for (auto i = static_cast<std::int32_t>(count); i-- > 0;) {
    if (!leads[static_cast<std::size_t>(i)] || p.at(i).kind != node_kind::operation) continue;
    std::vector<value> gradient_of_results;
    bool any = false;
    for (std::size_t r = 0; r < p.at(i).results.size(); ++r) {
      auto found = arrived.find({i, static_cast<std::int32_t>(r)});
      gradient_of_results.push_back(found == arrived.end() ? value() : found->second);
      any = any || found != arrived.end();
    }
    if (!any) continue;
    const node n = p.at(i);  // a copy: rules add nodes
    if (n.op->stops_gradient) continue;
    std::vector<value> inputs, results, out(n.inputs.size());
    auto wanted = std::make_unique<bool[]>(n.inputs.size() + 1);
    bool leads_on = false;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      inputs.emplace_back(&p, n.inputs[k]);
      wanted[k] =
          leads[static_cast<std::size_t>(n.inputs[k].node)] && n.reads_data(k) && is_floating(inputs[k].type().element);
      leads_on = leads_on || wanted[k];
    }
    if (!leads_on) continue;
    if (!n.op->gradient) {
      text t;
      if (!is_floating(n.results[0].element)) continue;
      if (!n.path.empty()) t << n.path << ": ";
      t << n.op->name << ": this operation has no gradient";
      detail::raise(error_kind::value, t);
    }
    for (std::size_t r = 0; r < n.results.size(); ++r)
      results.emplace_back(&p, value_id{i, static_cast<std::int32_t>(r)});
    gradient_call rule{p,
                       n,
                       inputs,
                       results,
                       gradient_of_results,
                       view<const bool>(wanted.get(), n.inputs.size()),
                       view<value>(out),
                       &gradients};
    const path_of here(p, n.path);  // what a rule adds belongs to the layer of its operation
    n.op->gradient(rule);
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (wanted[k] && !out[k].empty()) arrive(n.inputs[k], checked(p, n, k, inputs[k], out[k]));
  }

  std::vector<value> result;
  for (const auto& w : with_respect_to) {
    auto found = arrived.find(w.id());
    result.push_back(found != arrived.end() ? found->second
                                            : value(broadcast_like(p.number(0.0, w.type().element), w)));
  }
  return result;
}

}  // namespace lamina
