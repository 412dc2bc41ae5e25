// Finds what quantization needs in a program: products with parameters, and the operations fused into their pass.
module lamina:quantize.products;
import :context;
import :core;
import :dtype;
import :execute;
import :op;
import :op.control;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.quantized;
import :passes;
import :parameter;
import :program;
import :quantize;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// A product with parameters. `result` is the result of its pass, after bias and clamp.
struct product_site {
  std::string name, why;  // why: the reason that it cannot be quantized
  std::int32_t node = -1;
  value_id x, weight, bias, result;
  std::vector<std::int32_t> inside;  // nodes of the pass except the last
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::int64_t channels = 0;
  std::string in() const { return name + ":in"; }
  std::string out() const { return name + ":out"; }
};

/// A sum of two values, or an average of one, that can be int8 and derives from products. `result` of a sum is after
/// the relu that alone reads it, if any.
struct mean_site {
  std::string name;
  std::int32_t node = -1;
  value_id result;
  std::optional<pool2d_attributes> window;  // for an average
  bool relu = false;
  std::string out() const { return name + ":out"; }
};

/// Errors: value_error and type_error for samples that do not fit the inputs of a program.
void check_samples(std::string_view caller, const program& p, view<const std::vector<any_tensor>> samples) {
  text t;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const auto& inputs = samples[k];
    if (inputs.size() != p.inputs().size())
      raise(error_kind::value, t << caller << ": the program has " << p.inputs().size() << " inputs, and sample " << k
                                 << " has " << inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const node& n = p.at(p.inputs()[i]);
      if (inputs[i].element() != n.results[0].element)
        raise(error_kind::type, t << caller << ": input `" << n.name << "` is " << n.results[0] << ", and in sample "
                                  << k << " " << inputs[i].type());
    }
  }
}

/// A program prepared for quantization: calls inlined, batch norms folded, products found.
class product_finder {
 public:
  product_finder(const program& p, const parameter_store& all) {
    const auto flat = with_calls_inlined(p, [](const node& n) { return is_call_of<op::call>(n); });
    precomputed_program s = precomputed(*flat);
    program_ = s.rewritten;
    const auto take = [&](const program& from, auto skip) {
      for (auto i : from.states()) {
        const node& n = from.at(i);
        if (states_.find(n.name) || skip(n.name)) continue;
        const parameter* found = all.find(n.name);
        text t;
        if (!found)
          raise(error_kind::state, t << "state `" << n.name << "` of the program is not among the parameters");
        if (found->value().type() != n.results[0])
          raise(found->value().element() == n.results[0].element ? error_kind::shape : error_kind::type,
                t << "state `" << n.name << "` is " << n.results[0] << " in the program and " << found->value().type()
                  << " among the parameters");
        states_.add(n.name, found->value(), found->role(), found->trainable());
      }
    };
    take(*s.values, [](const std::string&) { return false; });
    if (!s.names.empty()) {
      const auto made = executor(make_plan(*s.values, {}, target_isa()), &states_).run({});
      for (std::size_t i = 0; i < made.size(); ++i) {
        states_.add(s.names[i], made[i], state_role::parameter, false);
        folded_[s.names[i]] = weight_name(*s.values, s.values->outputs()[i].value);
      }
    }
    take(*program_, [](const std::string&) { return false; });
    find();
  }
  const program& of() const { return *program_; }
  parameter_store& states() { return states_; }
  const std::vector<product_site>& sites() const { return sites_; }
  const std::vector<mean_site>& means() const { return means_; }
  const std::vector<char>& needed() const { return needed_; }
  /// Copies the nodes that outputs and assignments need into another program with the same inputs.
  void copy_whole(rewriter& copy) const {
    copy.copy_inputs();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_->nodes().size()); ++i)
      if (needed_[static_cast<std::size_t>(i)] && program_->at(i).kind != node_kind::input) copy.copy(i);
  }
  /// Whether a node depends on parameters and constants alone.
  bool is_parameter_only(value_id v) const { return parameter_only_[static_cast<std::size_t>(v.node)] != 0; }

  /// Whether a node works on int8 as on float, given that `int8` is true for its operands: it moves numbers, or clamps
  /// them.
  template <class F> bool stays_int8(const node& n, F int8) const {
    if (n.inputs.empty() || !int8(n.inputs[0])) return false;
    if (program_->bounds_of(n)) return true;
    if (!n.op->keeps_elements) return false;
    for (std::size_t k = 1; k < n.inputs.size(); ++k)
      if (n.reads_data(k) && !int8(n.inputs[k])) return false;
    const auto at = static_cast<std::int32_t>(&n - program_->nodes().data());
    for (std::int32_t r = 1; r < static_cast<std::int32_t>(n.results.size()); ++r)
      if (read_.contains({at, r})) return false;
    return true;
  }

  /// Evaluates a value that depends on parameters alone.
  any_tensor compute(value_id v) {
    const node& n = program_->at(v);
    if (n.kind == node_kind::state) return states_.find(n.name)->value();
    if (n.kind == node_kind::constant) return n.constant;
    program p;
    rewriter copy(*program_, p);
    std::vector<char> required(static_cast<std::size_t>(v.node) + 1);
    required.back() = 1;
    for (auto i = v.node; i >= 0; --i)
      if (required[static_cast<std::size_t>(i)] && program_->at(i).kind == node_kind::operation)
        for (auto in : program_->at(i).inputs) required[static_cast<std::size_t>(in.node)] = 1;
    for (std::int32_t i = 0; i <= v.node; ++i)
      if (required[static_cast<std::size_t>(i)]) copy.copy(i);
    p.output("value", copy.at(v));
    return executor(make_plan(p, {}, target_isa()), &states_).run({})[0];
  }

 private:
  // Name of the largest state that a value derives from: the weights, not factors that were folded into them.
  static std::string weight_name(const program& values, value_id v) {
    std::vector<value_id> stack{v};
    std::string name;
    std::int64_t max = -1;
    for (std::set<std::int32_t> seen; !stack.empty();) {
      const node& n = values.at(stack.back());
      const bool fresh = seen.insert(stack.back().node).second;
      stack.pop_back();
      if (!fresh) continue;
      if (n.kind == node_kind::state && n.results[0].dims.size() > max) max = n.results[0].dims.size(), name = n.name;
      for (auto in : n.inputs) stack.push_back(in);
    }
    return name;
  }

  void find() {
    const program& p = *program_;
    needed_ = p.reachable();
    const auto count = p.nodes().size();
    parameter_only_.assign(count, 0);
    users_.assign(count, {});
    root_.assign(count, 0);
    std::set<std::int32_t> assigned;
    for (const auto& a : p.assignments()) assigned.insert(a.state);
    for (std::size_t i = 0; i < count; ++i) {
      const node& n = p.nodes()[i];
      if (!needed_[i]) continue;
      if (n.kind == node_kind::constant) parameter_only_[i] = 1;
      else if (n.kind == node_kind::state) parameter_only_[i] = !assigned.contains(static_cast<std::int32_t>(i));
      else if (n.kind == node_kind::operation) {
        bool all = n.op->pure && !n.op->may_fail && n.subprograms.empty() && !n.inputs.empty() &&
                   n.results[0].dims.is_static();
        for (std::size_t k = 0; k < n.inputs.size(); ++k) {
          all = all && parameter_only_[static_cast<std::size_t>(n.inputs[k].node)];
          if (n.reads_data(k))
            users_[static_cast<std::size_t>(n.inputs[k].node)].push_back(static_cast<std::int32_t>(i));
          read_.insert(n.inputs[k]);
        }
        parameter_only_[i] = all;
      }
    }
    for (const auto& o : p.outputs()) root_[static_cast<std::size_t>(o.value.node)] = 1, read_.insert(o.value);
    for (const auto& a : p.assignments()) root_[static_cast<std::size_t>(a.value.node)] = 1;
    std::map<std::string, int> named;
    for (std::size_t i = 0; i < count; ++i) {
      const node& n = p.nodes()[i];
      if (!needed_[i] || parameter_only_[i] || (!is_call_of<op::matmul>(n) && !is_call_of<op::conv2d>(n))) continue;
      product_site s = site_of(static_cast<std::int32_t>(i));
      if (const int again = named[s.name]++) s.name += "#" + std::to_string(again + 1);
      sites_.push_back(std::move(s));
    }
    find_means(named);
  }

  bool is_relu(const node& n) const {
    const auto limits = program_->bounds_of(n);
    return limits && limits->low == 0 && limits->high == std::numeric_limits<double>::infinity();
  }

  // Finds values derived from quantized products alone, which can be int8: through maxima, averages and moves.
  void find_means(std::map<std::string, int>& named) {
    const program& p = *program_;
    std::set<value_id> can;
    std::set<std::int32_t> inside;
    for (const auto& s : sites_)
      if (s.why.empty()) {
        can.insert(s.result);
        inside.insert(s.result.node);
        inside.insert(s.inside.begin(), s.inside.end());
      }
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.nodes().size()); ++i) {
      const node& n = p.at(i);
      if (!needed_[static_cast<std::size_t>(i)] || n.kind != node_kind::operation || n.inputs.empty() ||
          inside.contains(i))
        continue;
      if (!can.contains(n.inputs[0])) continue;
      if (stays_int8(n, [&](value_id v) { return can.contains(v); })) can.insert({i, 0});
      mean_site s{"", i, {i, 0}, window_of_average(p, n)};
      const bool sum = n.op->adds && can.contains(n.inputs[1]) && p.type(n.inputs[0]) == p.type(n.inputs[1]);
      if (!sum && !s.window) continue;
      s.name = n.path.empty() ? std::string(n.op->name) : n.path;
      if (const int again = named[s.name]++) s.name += "#" + std::to_string(again + 1);
      if (const std::int32_t next = sum ? only_user(s.result) : 0; next && is_relu(p.at(next))) {
        s.result = {next, 0}, s.relu = true;
        inside.insert(next);
      }
      can.insert(s.result);
      means_.push_back(std::move(s));
    }
  }

  std::string name_of_weight(const node& of, value_id v) const {
    for (;;) {
      const node& n = program_->at(v);
      if (n.kind == node_kind::state) {
        auto f = folded_.find(n.name);
        return f == folded_.end() ? n.name : f->second;
      }
      if (n.kind != node_kind::operation || n.op->alias < 0)
        return of.path.empty() ? std::string(of.op->name) : of.path;
      v = n.inputs[static_cast<std::size_t>(n.op->alias)];
    }
  }

  product_site site_of(std::int32_t at) const {
    const program& p = *program_;
    const node& n = p.at(at);
    product_site s;
    s.node = at;
    s.x = n.inputs[0];
    s.weight = n.inputs[1];
    s.result = {at, 0};
    s.name = name_of_weight(n, s.weight);
    const tensor_type& w = p.type(s.weight);
    const bool conv = is_call_of<op::conv2d>(n);
    text why;
    if (w.element != dtype::float32) why << "it is " << w.element << "; only float32 products are quantized";
    else if (is_parameter_only(s.x)) why << "its first operand is computed from parameters alone";
    else if (!is_parameter_only(s.weight)) why << "its second operand is not computed from parameters alone";
    else if (!w.dims.is_static() || w.dims.size() == 0) why << "the extents of its weights are not known";
    else if (!conv && (w.dims.rank != 2 || p.type(s.x).dims.rank < 2)) why << "it is a batch of products";
    else if (!conv && static_cast<const matmul_attributes*>(n.attributes.get())->transpose_a)
      why << "its first operand is transposed";
    s.why = why.string();
    if (!s.why.empty()) return s;
    s.channels = w.dims.at(conv || static_cast<const matmul_attributes*>(n.attributes.get())->transpose_b ? 0 : 1);
    while (const std::int32_t next = only_user(s.result)) {
      const node& c = p.at(next);
      if (c.results[0] != n.results[0]) break;
      const value_id other = c.inputs.size() == 2 ? c.inputs[c.inputs[0] == s.result ? 1 : 0] : value_id{};
      if (c.op->adds && !s.bias && is_parameter_only(other) && is_bias(other, n, s.channels)) s.bias = other;
      else if (const auto limits = p.bounds_of(c); limits && c.inputs[0] == s.result)
        s.low = limits->low, s.high = limits->high;
      else break;
      s.inside.push_back(s.result.node);
      s.result = {next, 0};
      if (s.low > -std::numeric_limits<double>::infinity()) break;
    }
    return s;
  }
  // The single reader of a value; 0, which is never an operation, if there are none or several.
  std::int32_t only_user(value_id v) const {
    const auto& u = users_[static_cast<std::size_t>(v.node)];
    return root_[static_cast<std::size_t>(v.node)] || u.size() != 1 ? 0 : u[0];
  }
  bool is_bias(value_id v, const node& product, std::int64_t channels) const {
    const shape &b = program_->type(v).dims, &y = product.results[0].dims;
    const int axis = product.op->channels(product.attributes.get(), y, program_->type(product.inputs[1]).dims).result;
    if (b.rank > y.rank || b.size() != channels) return false;
    for (int i = 0; i < b.rank; ++i)
      if (b.at(i) != (i + y.rank - b.rank == axis ? channels : 1)) return false;
    return b.rank >= y.rank - axis;
  }
  std::shared_ptr<program> program_;
  parameter_store states_;
  std::map<std::string, std::string> folded_;  // from the name of a folded state to that of its weights
  std::vector<product_site> sites_;
  std::vector<mean_site> means_;
  std::vector<char> needed_, parameter_only_, root_;
  std::vector<std::vector<std::int32_t>> users_;
  std::set<value_id> read_;  // values read by an operation, or output
};

}  // namespace lamina::detail
