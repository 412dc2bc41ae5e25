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

// Gradient rules have their own object files, and operation records refer to them weakly: a program without gradients
// links none. Linking this file pulls in all of them, of which the linker keeps those of the operations in use.
namespace gradient_files {
void attention();
void channels();
void computed_shape();
void coordinates();
void elementwise();
void index();
void linear();
void loss();
void nn();
void normalize();
void recurrent();
void reduce();
void reduce_by();
void sample();
void shape();
void sized();
void tile();
void view();
[[gnu::used]] void (*const linked[])() = {
    attention, channels,  computed_shape, coordinates, elementwise, index, linear, loss, nn,
    normalize, recurrent, reduce,         reduce_by,   sample,      shape, sized,  tile, view};
}  // namespace gradient_files

namespace {

/// Checks a rule's result for operand k, which is added to other gradients of that operand and written to memory of its
/// size. Extents still unknown in users' rules are compared at planning time.
value checked(program& p, const node& n, std::size_t k, const value& operand, const value& found) {
  text t;
  if (!n.path.empty()) t << n.path << ": ";
  t << n.op->name << ": its gradient for operand " << k << " is ";
  if (&found.owner() != &p) detail::raise(error_kind::value, t << "a value of another program");
  const tensor_type &expected = operand.type(), &given = found.type();
  if (expected.element != given.element || !fits(expected.dims, given.dims))
    detail::raise(expected.element != given.element ? error_kind::type : error_kind::shape,
                  t << given << "; expected the type of the operand, " << expected);
  if (n.op->library || surely_equal(expected.dims, given.dims)) return found;
  text where;
  if (!n.path.empty()) where << n.path << ": ";
  const path_of here(p, (where << "gradient of " << n.op->name << " for operand " << k).string());
  return apply<op::gradient_like>({}, found, operand);
}

/// A tensor like `v` filled with `x`.
value filled_like(program& p, double x, const value& v) { return broadcast_like(p.number(x, v.type().element), v); }

/// Rejects values of another program.
void check_owners(const program& p, view<const value> values, std::string_view what) {
  for (const auto& v : values)
    if (text t; &v.owner() != &p)
      detail::raise(error_kind::state, t << "gradients: " << what << " belongs to another program");
}

/// Nodes that depend on one of these values: only they need gradients.
std::vector<char> nodes_leading_to(const program& p, view<const value> values) {
  std::vector<char> leads(p.nodes().size());
  for (const auto& v : values) leads[static_cast<std::size_t>(v.id().node)] = 1;
  for (std::size_t i = 0; i < leads.size(); ++i) {
    const node& n = p.nodes()[i];
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k) && leads[static_cast<std::size_t>(n.inputs[k].node)]) leads[i] = 1;
  }
  return leads;
}

/// Accumulated gradients of values.
class gradient_sums {
 public:
  void add(value_id at, const value& g) {
    auto [found, first] = sums_.try_emplace(at, g);
    if (!first) found->second = found->second + g;
  }
  /// An empty value if no gradient has arrived.
  value of(value_id v) const {
    const auto found = sums_.find(v);
    return found == sums_.end() ? value() : found->second;
  }

 private:
  std::map<value_id, value> sums_;
};

/// Applies a node's gradient rule and accumulates the gradients of its operands.
void propagate(program& p, std::int32_t i, const std::vector<char>& leads, gradient_sums& sums) {
  std::vector<value> inputs, results, gradients_of_results;
  bool arrived = false;
  for (std::size_t r = 0; r < p.at(i).results.size(); ++r) {
    results.emplace_back(&p, value_id{i, static_cast<std::int32_t>(r)});
    gradients_of_results.push_back(sums.of(results[r].id()));
    arrived = arrived || !gradients_of_results[r].empty();
  }
  if (!arrived) return;
  const node n = p.at(i);  // a copy: rules add nodes
  if (n.op->stops_gradient) return;
  auto wanted = std::make_unique<bool[]>(n.inputs.size() + 1);
  bool leads_on = false;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    inputs.emplace_back(&p, n.inputs[k]);
    wanted[k] =
        leads[static_cast<std::size_t>(n.inputs[k].node)] && n.reads_data(k) && is_floating(inputs[k].type().element);
    leads_on = leads_on || wanted[k];
  }
  if (!leads_on) return;
  if (!n.op->gradient) {
    text t;
    if (n.op->host) {
      if (!n.path.empty()) t << n.path << ": ";
      detail::raise(error_kind::value, t << n.op->name << ": it runs on the host, between plans, and has no gradient");
    }
    if (!is_floating(n.results[0].element)) return;
    if (!n.path.empty()) t << n.path << ": ";
    detail::raise(error_kind::value, t << n.op->name << ": this operation has no gradient");
  }
  std::vector<value> out(n.inputs.size());
  gradient_call rule{p,
                     n,
                     inputs,
                     results,
                     gradients_of_results,
                     view<const bool>(wanted.get(), n.inputs.size()),
                     view<value>(out),
                     &gradients};
  const path_of here(p, n.path);  // nodes added by the rule belong to the operation's layer
  n.op->gradient(rule);
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    if (wanted[k] && !out[k].empty()) sums.add(n.inputs[k], checked(p, n, k, inputs[k], out[k]));
}

}  // namespace

std::vector<value> gradients(program& p, view<const value> of, view<const value> start,
                             view<const value> with_respect_to) {
  check_owners(p, of, "a loss");
  check_owners(p, start, "the gradient of a loss");
  check_owners(p, with_respect_to, "a variable");
  const auto leads = nodes_leading_to(p, with_respect_to);
  gradient_sums sums;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (i < start.size()) sums.add(of[i].id(), start[i]);
    else if (of[i].shape() == shape{}) sums.add(of[i].id(), p.number(1.0, of[i].type().element));
    else sums.add(of[i].id(), filled_like(p, 1.0, of[i]));
  }
  for (auto i = static_cast<std::int32_t>(leads.size()); i-- > 0;)
    if (leads[static_cast<std::size_t>(i)] && p.at(i).kind == node_kind::operation) propagate(p, i, leads, sums);

  std::vector<value> result;
  for (const auto& w : with_respect_to) {
    const value found = sums.of(w.id());
    result.push_back(found.empty() ? filled_like(p, 0.0, w) : found);
  }
  return result;
}

}  // namespace lamina
