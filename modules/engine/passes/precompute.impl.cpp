module lamina:passes.precompute.impl;
import :core;
import :dtype;
import :op;
import :op.control;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.shape;
import :passes;
import :passes.known_weights;
import :passes.loop_division;
import :passes.patterns;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

/// Tells which nodes depend on nothing but constants and states that are never assigned; extends itself as the program
/// grows.
class precomputable_nodes {
 public:
  precomputable_nodes(const program& p, const program& assigning) : p_(p) {
    for (const auto& a : assigning.assignments()) assigned_.insert(assigning.at(a.state).name);
  }
  bool operator()(value_id v) {
    while (known_.size() < p_.nodes().size()) known_.push_back(classify(p_.nodes()[known_.size()]));
    return known_[static_cast<std::size_t>(v.node)] != 0;
  }
  bool operator()(const value& v) { return (*this)(v.id()); }
  /// As above, and at least one state is among the dependencies.
  bool reads_states(value_id v) { return (*this)(v) && known_[static_cast<std::size_t>(v.node)] == from_states; }

 private:
  static constexpr char from_constants = 1, from_states = 2;

  char classify(const node& n) const {
    if (n.kind == node_kind::constant) return from_constants;
    if (n.kind == node_kind::state) return assigned_.contains(n.name) ? 0 : from_states;
    if (n.kind == node_kind::input || !n.op->pure || n.op->host || n.op->may_fail || !n.subprograms.empty() ||
        n.results.size() != 1)
      return 0;
    char made = n.results[0].dims.is_static() && !n.inputs.empty() ? from_constants : 0;
    for (auto v : n.inputs) {
      const char operand = known_[static_cast<std::size_t>(v.node)];
      made = made && operand ? std::max(made, operand) : 0;
    }
    return made;
  }
  const program& p_;
  std::set<std::string> assigned_;
  std::vector<char> known_;
};

/// Copies a program and moves per-channel factors and terms into the preceding product:
/// (x W + b) s + t = x (W s) + (b s + t), where W, b, s and t depend on parameters alone. Views in between, such as
/// those of a batch norm over rows or of a convolution along sequences, are applied after the moved factor or term.
class joining {
 public:
  explicit joining(const program& from) : copy_(from, to_), precomputable_(to_, from), uses_(from.nodes().size()) {
    to_.common_subexpressions = from.common_subexpressions;
    for (const auto& n : from.nodes())
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (n.reads_data(k)) ++uses_[static_cast<std::size_t>(n.inputs[k].node)];
    for (const auto& o : from.outputs()) ++uses_[static_cast<std::size_t>(o.value.node)];
    for (const auto& a : from.assignments()) ++uses_[static_cast<std::size_t>(a.value.node)];
  }

  program run(std::int64_t& joined) {
    copy_.run([&](std::int32_t i, const node& n) {
      std::vector<value> in;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        in.push_back(n.reads_data(k) ? copy_.at(n.inputs[k]) : alike(copy_.at(n.inputs[k])));
      to_.path = n.path;
      const value joint = in.size() == 2 && n.results.size() == 1 ? joint_of(n, in[0], in[1]) : value();
      if (!joint.empty() && joint.type() == n.results[0]) {
        copy_.set({i, 0}, joint);
        const value& before = precomputable_(in[0]) ? in[1] : in[0];
        if (before.type() == joint.type()) alike_[before.id()] = joint.id();
        ++joined;
      } else {
        if (in.size() == 2 && n.results.size() == 1) note_miss(n, in[0], in[1]);
        copy_.copy(i, in);
      }
      users_[copy_.at({i, 0}).id().node] += uses_[static_cast<std::size_t>(i)];
      return true;
    });
    return std::move(to_);
  }

  /// Products followed by factors that stay, and why.
  std::vector<std::string> missed{};

 private:
  // Records why parameters that multiply the result of a product with weights are not folded into the weights.
  void note_miss(const node& n, const value& a, const value& b) {
    const bool factors = is_call_of<op::multiply>(n) || (is_call_of<op::divide>(n) && precomputable_(b));
    if (!factors || precomputable_(a) == precomputable_(b)) return;
    const value &moving = precomputable_(a) ? b : a, &still = precomputable_(a) ? a : b;
    if (!precomputable_.reads_states(still.id())) return;
    bool once = true;
    value_id v = moving.id();
    for (;; v = to_.at(v).inputs[0]) {
      once = once && read_once({&to_, v});
      const node& m = to_.at(v);
      const bool sum = m.op && m.op->adds && precomputable_(m.inputs[1]);
      if (m.kind != node_kind::operation || (!is_view(m) && !sum)) break;
    }
    const node& product = to_.at(v);
    if (!is_product(product) || !precomputable_(product.inputs[1])) return;
    text t;
    t << product.op->name << (product.path.empty() ? "" : " ") << product.path << " keeps the factors " << still.shape()
      << " after it: " << (once ? "they are not one for each of its channels" : "its result has another reader");
    missed.push_back(t.string());
  }
  value operand(const node& n, std::size_t i) { return {&to_, n.inputs[i]}; }
  // False for a value with another reader: folding would compute its product twice.
  bool read_once(const value& v) const {
    auto found = users_.find(v.id().node);
    return found == users_.end() || found->second == 1;
  }
  static bool is_product(const node& n) { return n.op && n.op->channels; }
  static bool is_view(const node& n) { return n.op && n.op->alias == 0; }
  bool is_product_or_view_of_it(value_id v) const {
    while (is_view(to_.at(v))) v = to_.at(v).inputs[0];
    return is_product(to_.at(v));
  }
  // Newest equivalent of `v`, for uses that read only its shape.
  value alike(value v) {
    for (auto at = alike_.find(v.id()); at != alike_.end(); at = alike_.find(v.id())) v = {&to_, at->second};
    return v;
  }

  value joint_of(const node& n, const value& a, const value& b) {
    if (!is_real(n.results[0].element) || precomputable_(a) == precomputable_(b)) return {};
    const value &moving = precomputable_(a) ? b : a, &still = precomputable_(a) ? a : b;
    if (is_call_of<op::multiply>(n)) return scaled(moving, still);
    if (n.op->adds)
      return is_product_or_view_of_it(moving.id()) ? value()
                                                   : shifted(moving, still);  // a sum after a product is final already
    if (precomputable_(a)) return {};
    if (is_call_of<op::divide>(n)) return scaled(moving, reciprocal(still));
    if (is_call_of<op::subtract>(n)) return shifted(moving, -still);
    return {};
  }

  /// a * s with s folded into the weights of the product inside a; empty if a contains no such product.
  value scaled(const value& a, const value& s) {
    const node n = to_.at(a.id());  // a copy: nodes are added
    if (!read_once(a) || n.kind != node_kind::operation) return {};
    if (n.op->adds) {
      for (std::size_t k = 0; k < 2; ++k) {
        value product = operand(n, 1 - k), term = operand(n, k);
        if (!precomputable_(term) || precomputable_(product) || product.type() != a.type()) continue;
        if (value x = scaled(product, s); !x.empty()) return x + term * s;
      }
      return {};
    }
    if (is_view(n)) return across(n, s, [&](const value& x, const value& factor) { return scaled(x, factor); });
    if (!is_product(n) || !precomputable_(n.inputs[1])) return {};
    const value x = operand(n, 0), w = operand(n, 1);
    const channel_axes channels = n.op->channels(n.attributes.get(), a.shape(), w.shape());
    shape of_weights;
    for (int i = 0; i < w.shape().rank; ++i)
      of_weights.push_back(i == channels.weights ? a.shape()[channels.result] : dim(1));
    const value factor = along(s, a.shape(), channels.result, of_weights);
    if (factor.empty()) return {};
    const value in[] = {x, w * factor};
    return {&to_, to_.add(*n.op, n.attributes, in)};
  }

  /// a + t with t folded into the term that is added to the product inside a; empty if a contains no such product.
  value shifted(const value& a, const value& t) {
    const node n = to_.at(a.id());
    if (is_product(n)) return a + t;
    if (n.kind != node_kind::operation || !read_once(a)) return {};
    if (is_view(n)) return across(n, t, [&](const value& x, const value& term) { return shifted(x, term); });
    if (!n.op->adds) return {};
    for (std::size_t k = 0; k < 2; ++k) {
      value product = operand(n, 1 - k), term = operand(n, k);
      if (precomputable_(term) && is_product_or_view_of_it(product.id()) && product.type() == a.type())
        return product + (term + t);
    }
    return {};
  }

  /// Applies `move` to the operand of `view` and to `s`, then `view` to the result; empty unless `s` varies along one
  /// axis on both sides of the view.
  template <class F> value across(const node& view, const value& s, F move) {
    const value x = operand(view, 0);
    const shape inner = x.shape(), outer = view.results[0].dims, given = s.shape();  // copies: nodes are added
    value seen;
    if (given.size() == 1) seen = reshape(s, shape{});
    else {
      int axis = -1;  // of the outer shape
      for (int i = 0; i < given.rank; ++i)
        if (given[i] != dim(1)) axis = axis < 0 && given.rank <= outer.rank ? i + outer.rank - given.rank : outer.rank;
      if (axis < 0 || axis >= outer.rank || outer[axis] != given.size()) return {};
      for (int k = 0; k < inner.rank; ++k)
        if (inner[k] == outer[axis] &&
            (same(inner, 0, k, outer, 0, axis) || same(inner, k + 1, inner.rank, outer, axis + 1, outer.rank))) {
          shape to{given.size()};
          for (int i = k + 1; i < inner.rank; ++i) to.push_back(1);
          seen = reshape(s, to);
          break;
        }
    }
    const value moved = seen.empty() ? value() : move(x, seen);
    const bool fits = !moved.empty() && moved.type() == x.type();
    if (!fits) return {};
    alike_[x.id()] = moved.id();
    std::vector<value> in{moved};
    for (std::size_t k = 1; k < view.inputs.size(); ++k) in.push_back(alike(operand(view, k)));
    return {&to_, to_.add(*view.op, view.attributes, in, view.subprograms)};
  }
  /// Whether two ranges of extents are known to be equal, ignoring extents of 1.
  static bool same(const shape& a, int i, int a_end, const shape& b, int k, int b_end) {
    for (;; ++i, ++k) {
      while (i < a_end && a[i] == dim(1)) ++i;
      while (k < b_end && b[k] == dim(1)) ++k;
      if (i == a_end || k == b_end) return i == a_end && k == b_end;
      if (a[i] != b[k] || !(a[i].is_number() || a[i].is_name())) return false;
    }
  }

  /// `s`, one number or one per position of an axis of `of`, reshaped to broadcast along the weights; else empty.
  static value along(const value& s, const shape& of, int axis, const shape& weights) {
    const shape& given = s.shape();
    if (given.size() == 1) return reshape(s, shape{});
    if (given.rank > of.rank) return {};
    for (int i = 0; i < given.rank; ++i) {
      int k = i + of.rank - given.rank;
      if (given[i] != (k == axis ? of[axis] : dim(1))) return {};
    }
    return weights.is_static() && given.size() == weights.size() ? value(reshape(s, weights)) : value();
  }

  program to_;
  rewriter copy_;
  precomputable_nodes precomputable_;
  std::vector<std::int64_t> uses_;
  std::map<std::int32_t, std::int64_t> users_;  // reads of nodes of the new program
  std::map<value_id, value_id> alike_;          // values that something was folded into, and their replacements
};

// The program in which loops compute nothing from parameters alone; empty where it has no loops.
std::optional<program> with_divided_loops(const program& p) {
  if (std::none_of(p.nodes().begin(), p.nodes().end(), [](const node& n) { return is_call_of<op::scan>(n); }))
    return {};
  program to;
  to.common_subexpressions = p.common_subexpressions;
  rewriter copy(p, to);
  copy.run([&](std::int32_t i, const node& n) {
    if (!is_call_of<op::scan>(n)) return false;
    const loop_division division(n, *n.subprograms[0], 0);
    if (!division.moves()) return false;
    to.path = n.path;
    copy.set(i, division.run(copy.operands(n), to, [&](const node& m, view<const value> operands) {
      return value(&to, to.add(*m.op, m.attributes, operands));
    }));
    to.path = p.path;
    return true;
  });
  return to;
}

}  // namespace

precomputed_program precomputed(const program& given, bool factors) {
  precomputed_program r;
  // Int8 patterns are recognizable only while the operations that compute the weights are visible.
  pass_counters found;
  const auto in_int8 = rewriting::recognized_quantized(given, {}, found);
  const program& recognized = in_int8 ? *in_int8 : given;
  const auto with_loops = factors ? with_divided_loops(recognized) : std::nullopt;
  const program& p = with_loops ? *with_loops : recognized;
  r.recognized = found.recognized();
  r.missed = std::move(found.missed);
  program moved;
  if (factors) {
    joining moving(p);
    moved = moving.run(r.joined);
    r.missed.insert(r.missed.end(), moving.missed.begin(), moving.missed.end());
  }
  const program& with_factors = factors ? moved : p;
  std::optional<program> faster;
  if (factors) {
    precomputable_nodes is_known(with_factors, p);
    faster = rewriting::known_weights(with_factors).run([&](value_id v) { return is_known(v); });
  }
  const program& joint = faster ? *faster : with_factors;
  r.rewritten = std::make_shared<program>();
  r.values = std::make_shared<program>();
  rewriter to_program(joint, *r.rewritten), to_values(joint, *r.values);
  to_program.copy_inputs();

  // The last precomputed value on each path becomes a state of the new program; a view of a state costs nothing and
  // stays.
  precomputable_nodes is_precomputable(joint, p);
  auto is_operation = [&](value_id v) { return joint.at(v).kind == node_kind::operation; };
  std::set<std::int32_t> placed;
  std::int64_t number = 0;
  auto take = [&](value_id v) {
    const bool is_needed = factors ? is_precomputable(v) : is_precomputable.reads_states(v);
    if (!is_needed || !is_operation(v) || placed.contains(v.node)) return;
    const node& n = joint.at(v);
    if (n.op->alias >= 0 && !is_operation(n.inputs[static_cast<std::size_t>(n.op->alias)])) return;
    std::string name;
    do name = "folded." + std::to_string(number++);
    while (p.find_state(name) >= 0);
    placed.insert(v.node);
    r.names.push_back(name);
    r.values->output(name, to_values.reach(v));
    to_program.set({v.node, 0}, r.rewritten->state(name, joint.type(v)));
  };
  auto needed = joint.reachable();
  for (std::size_t i = 0; i < joint.nodes().size(); ++i)
    if (const node& n = joint.nodes()[i]; needed[i] && !is_precomputable(value_id{static_cast<std::int32_t>(i), 0}))
      for (auto v : n.inputs) take(v);
  for (const auto& o : joint.outputs()) take(o.value);
  for (const auto& a : joint.assignments()) take(a.value);

  for (const auto& o : joint.outputs()) r.rewritten->output(o.name, to_program.reach(o.value));
  for (const auto& a : joint.assignments())
    r.rewritten->assign(to_program.reach({a.state, 0}), to_program.reach(a.value));
  return r;
}

}  // namespace lamina
