module lamina:graph.gradient.impl;
import :core;
import :dtype;
import :gradient;
import :graph;
import :graph.symbol_table;
import :op;
import :op.elementwise;
import :op.index;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

namespace {
// Gives a gradient a unique name.
std::string name_gradient(symbol_table& b, const std::string& preferred, value_id id) {
  std::string as = preferred;
  const auto taken = [&] {
    const auto known = b.aliases.find(as);
    const auto blob = b.blobs.find(as);
    return (known != b.aliases.end() && known->second != id) ||
           (blob != b.blobs.end() && blob->second.versions[0] != id);
  };
  for (int i = 0; taken(); ++i) as = preferred + "_auto_" + std::to_string(i);
  b.aliases.insert_or_assign(as, id);
  b.names.try_emplace(id, as);
  return as;
}
// Names the summands of a gradient in the order of their addition; does nothing if the sum was simplified.
void name_summands(symbol_table& b, const value& sum, const std::string& beginning, std::size_t count) {
  std::vector<value_id> all;
  value_id at = sum.id();
  while (all.size() + 1 < count) {
    const node& n = b.body.at(at);
    if (!n.op || !n.op->adds) return;
    all.push_back(n.inputs[1]);
    at = n.inputs[0];
  }
  if (count < 2) return;
  all.push_back(at);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::string as = beginning + std::to_string(k);
    name_gradient(b, as, all[all.size() - 1 - k]);
  }
}
// Raises an error for a target that cannot be differentiated.
void check_target(const symbol_table& b, const gradient_target& target) {
  b.check_owned(target.of, "the target of a gradient");
  const auto& n = b.body.at(target.of.id());
  const auto fail = [&](error_kind kind, const text& why) {
    text t;
    b.fail(kind, t << "add_gradient_operators: the target `" << b.name_of(target.of.id()) << "` " << why);
  };
  text why;
  const tensor_type& type = target.of.type();
  if (!is_floating(type.element)) fail(error_kind::type, why << "is " << type << "; gradients need float elements");
  if (n.op && n.op->stops_gradient)
    fail(error_kind::value, why << "comes from stop_gradient, through which no gradient flows");
  if (target.start.empty()) return;
  b.check_owned(target.start, "the start of a gradient");
  if (const tensor_type& start = target.start.type(); start != type)
    fail(start.element == type.element ? error_kind::shape : error_kind::type,
         why << "is " << type << "; its initial gradient is " << start);
}

// Default initial gradient of a target: ones.
value ones_like(program& p, const value& v) {
  const value one = p.number(1.0, v.type().element);
  return v.shape() == shape{} ? one : value(broadcast_like(one, v));
}

// Nodes that the targets depend on along differentiable paths.
class gradient_paths {
 public:
  gradient_paths(const program& p, view<const value> from) : p_(p), reached_(p.nodes().size()) {
    for (const auto& v : from) reached_[static_cast<std::size_t>(v.id().node)] = 1;
    for (auto i = reached_.size(); i-- > 0;)
      for (const value_id v : operands(i))
        if (is_floating(p.type(v).element)) reached_[static_cast<std::size_t>(v.node)] = 1;
  }
  bool lead_to(value_id v) const {
    return reached_[static_cast<std::size_t>(v.node)] && is_floating(p_.type(v).element);
  }
  // Number of uses of each value by operations on the paths.
  std::map<value_id, std::size_t> uses() const {
    std::map<value_id, std::size_t> all;
    for (std::size_t i = 0; i < reached_.size(); ++i)
      for (const value_id v : operands(i)) ++all[v];
    return all;
  }

 private:
  // Operands that a node on a path reads.
  std::vector<value_id> operands(std::size_t i) const {
    const node& n = p_.nodes()[i];
    std::vector<value_id> read;
    if (!reached_[i] || !n.op || n.op->stops_gradient) return read;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k)) read.push_back(n.inputs[k]);
    return read;
  }

  const program& p_;
  std::vector<char> reached_;
};

// Values to differentiate with respect to: the requested ones, or every blob on the paths.
std::vector<value> sources(symbol_table& b, const std::vector<value>& requested, const gradient_paths& paths) {
  for (const auto& v : requested) {
    b.check_owned(v, "the value to differentiate by");
    text t;
    if (!paths.lead_to(v.id()))
      b.fail(error_kind::value,
             t << "add_gradient_operators: the targets do not depend on `" << b.name_of(v.id()) << "`");
  }
  if (!requested.empty()) return requested;
  std::set<value_id> named;
  for (const auto& [as, blob] : b.blobs) named.insert(blob.versions.begin(), blob.versions.end());
  std::vector<value> all;
  for (auto id : named)
    if (paths.lead_to(id)) all.push_back(b.at(id));
  return all;
}
}  // namespace

gradient_map net::add_gradient_operators(const std::vector<gradient_target>& targets, const gradient_options& o,
                                         const origin&) {
  auto& b = symbols();
  if (targets.empty()) b.fail(error_kind::value, text("add_gradient_operators: no targets"));
  std::vector<value> of, start;
  std::vector<std::pair<std::string, value_id>> starts;  // default initial gradients
  for (const auto& target : targets) {
    check_target(b, target);
    of.push_back(target.of);
    start.push_back(target.start.empty() ? ones_like(b.body, target.of) : target.start);
    if (target.start.empty()) starts.emplace_back(b.name_of(target.of.id()) + "_autogen_grad", start.back().id());
  }
  const gradient_paths paths(b.body, view<const value>(of));
  const std::vector<value> by = sources(b, o.with_respect_to, paths);
  // The number of uses of a value is the number of summands of its gradient.
  auto uses = paths.uses();
  for (const auto& v : of) ++uses[v.id()];

  for (const auto& [as, id] : starts) b.aliases.try_emplace(as, id);
  gradient_map map;
  map.symbols_ = symbols_.get();
  const auto found = gradients(b.body, of, start, by);
  for (std::size_t i = 0; i < by.size(); ++i) {
    map.all_.insert_or_assign(by[i].id(), found[i]);
    const std::string first = b.name_of(by[i].id()), as = name_gradient(b, first + "_grad", found[i].id());
    if (const auto begun = b.begun.find(by[i].id()); begun != b.begun.end())
      for (const auto& other : begun->second)  // further names of the value
        if (other != first) name_gradient(b, other + "_grad", found[i].id());
    name_summands(b, found[i], "_" + as + "_autosplit_", uses[by[i].id()]);
  }
  b.made.reset();
  return map;
}

value gradient_map::operator[](const value& blob) const {
  if (auto found = all_.find(blob.id()); symbols_ && found != all_.end() && &blob.owner() == &found->second.owner())
    return found->second;
  text t;
  if (!symbols_) detail::raise(error_kind::state, "gradient_map: it is empty");
  symbols_->check_owned(blob, "the blob");
  t << "there is no gradient of `" << symbols_->name_of(blob.id())
    << "`: the targets do not depend on it, or it was not requested";
  symbols_->fail(error_kind::value, t);
}
value gradient_map::operator[](std::string_view blob) const {
  if (!symbols_) detail::raise(error_kind::state, "gradient_map: it is empty");
  auto* b = symbols_->find(blob);
  if (!b) {
    const auto known = symbols_->known(blob);  // a value without a blob name
    if (!known) symbols_->no_blob(blob);
    return (*this)[symbols_->at(known->second)];
  }
  const auto& [as, versions] = std::tie(b->first, b->second.versions);
  if (auto found = all_.find(versions.back()); found != all_.end()) return found->second;
  text t;
  for (std::size_t i = 0; i + 1 < versions.size(); ++i)
    if (all_.contains(versions[i])) {
      symbols_->history(t, as);
      symbols_->fail(error_kind::value, t << "; the gradient belongs to version " << i
                                          << ", not to the newest; request it by the value of version " << i);
    }
  symbols_->fail(error_kind::value, t << "there is no gradient of `" << as
                                      << "`: the targets do not depend on it, or it was not requested");
}

namespace {
// Collects the lookups whose rows sum to a gradient; false if it has any other part.
bool collect(const value& g, std::vector<value>* indices, std::vector<value>* rows) {
  program& p = g.owner();
  const node n = p.at(g.id());
  if (n.op && n.op->adds) return collect({&p, n.inputs[0]}, indices, rows) && collect({&p, n.inputs[1]}, indices, rows);
  if (!is_call_of<op::scatter_rows>(n) || static_cast<const axis_attributes*>(n.attributes.get())->axis != 0)
    return false;
  if (!indices) return true;
  shape row = g.shape();
  row[0] = dyn;
  indices->push_back(reshape(value(&p, n.inputs[1]), shape{dyn}));
  rows->push_back(reshape(value(&p, n.inputs[0]), row));
  return true;
}
}  // namespace

bool gradient_map::is_sparse(const value& blob) const { return collect((*this)[blob], nullptr, nullptr); }
gradient_slices gradient_map::slices(const value& blob) const {
  const value g = (*this)[blob];
  if (!collect(g, nullptr, nullptr)) {
    text t;
    symbols_->fail(error_kind::value, t << "the gradient of `" << symbols_->name_of(blob.id())
                                        << "` is dense, or a sum of dense and sparse ones, so it has no slices");
  }
  std::vector<value> indices, rows;
  collect(g, &indices, &rows);
  if (indices.size() == 1) return {indices[0], rows[0]};
  return {concat(view<const value>(indices)), concat(view<const value>(rows))};
}

value zero_gradient(const value& x, const origin&) {
  if (!is_floating(x.type().element)) {
    const std::string here = x.owner().place();
    text t;
    detail::raise(error_kind::type,
                  t << here << (here.empty() ? "" : ": ") << "zero_gradient: " << x.type() << " has no gradient");
  }
  // `where` always selects the side with stop_gradient; the other side gets a zero gradient.
  return where(x.owner().number(1.0, dtype::boolean), stop_gradient(x), x);
}

}  // namespace lamina::graph
