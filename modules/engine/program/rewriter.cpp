// Copies a program into another, node by node, and maps each value to its copy; shared by all passes.
module lamina:rewriter;
import :program;
import :tensor;
import lamina.std;

namespace lamina {

class rewriter {
 public:
  rewriter(const program& from, program& to) : from(from), to(to), first_(from.nodes().size() + 1) {
    for (std::size_t i = 0; i < from.nodes().size(); ++i)
      first_[i + 1] = first_[i] + std::max<std::size_t>(from.nodes()[i].results.size(), 1);
    made_.resize(first_.back());
  }
  const program& from;
  program& to;

  bool has(value_id v) const { return static_cast<bool>(made_[place(v)]); }
  /// The copy of a value; must exist.
  value at(value_id v) const { return {&to, made_[place(v)]}; }
  std::vector<value> operands(const node& n) const {
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(at(v));
    return in;
  }
  void set(value_id v, const value& becomes) { made_[place(v)] = becomes.id(); }
  /// Sets the copies of a node's results; empty ones, which nothing reads, are skipped.
  void set(std::int32_t node, view<const value> results) {
    for (std::size_t r = 0; r < results.size(); ++r)
      if (!results[r].empty()) set({node, static_cast<std::int32_t>(r)}, results[r]);
  }

  /// Copies a node unchanged; an operation gets the copies of its operands.
  void copy(std::int32_t i) {
    const node& n = from.at(i);
    switch (n.kind) {
      case node_kind::input: return set({i, 0}, to.input(n.name, n.results[0], n.uniform));
      case node_kind::state: return set({i, 0}, to.state(n.name, n.results[0]));
      case node_kind::constant: return set({i, 0}, to.constant(n));
      case node_kind::operation: return copy(i, operands(n));
    }
  }
  void copy_inputs() {
    for (auto i : from.inputs()) copy(i);
  }
  /// Copies an operation with other operands.
  void copy(std::int32_t i, view<const value> operands) {
    const node& n = from.at(i);
    to.path = n.path;
    const value_id id = to.add(*n.op, n.attributes, operands, n.subprograms);
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(n.results.size()); ++r)
      made_[place({i, r})] = {id.node, id.result + r};
    to.path = from.path;
  }

  /// Copies a value and its dependencies as far as missing.
  value reach(value_id v) {
    std::vector<std::int32_t> stack{v.node};  // deep nets would overflow recursion
    while (!stack.empty()) {
      const auto i = stack.back();
      const auto before = stack.size();
      if (!has({i, 0}))
        for (auto operand : from.at(i).inputs)
          if (!has(operand)) stack.push_back(operand.node);
      if (stack.size() != before) continue;
      stack.pop_back();
      if (!has({i, 0})) copy(i);
    }
    return at(v);
  }
  /// Copies all inputs, all nodes that the roots reach, and the roots. `rewrite(i, n)` returns whether it has set the
  /// copy of operation i; otherwise it is copied.
  template <class F> void run(F rewrite) {
    const auto needed = from.reachable();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(from.nodes().size()); ++i) {
      const node& n = from.at(i);
      if (n.kind != node_kind::input && !needed[static_cast<std::size_t>(i)]) continue;
      if (n.kind == node_kind::operation && rewrite(i, n)) continue;
      copy(i);
    }
    roots();
  }
  void roots() {
    to.path = from.path;
    for (const auto& o : from.outputs()) to.output(o.name, at(o.value));
    for (const auto& a : from.assignments()) to.assign(at({a.state, 0}), at(a.value));
  }

 private:
  std::size_t place(value_id v) const {
    return first_[static_cast<std::size_t>(v.node)] + static_cast<std::size_t>(v.result);
  }
  std::vector<std::size_t> first_;  // index of each node's result 0 in `made_`
  std::vector<value_id> made_;
};

/// Inlines calls for which `inline_it(n)` holds, recursively.
template <class F> std::shared_ptr<program> with_calls_inlined(const program& p, F inline_it) {
  auto flat = std::make_shared<program>();
  flat->common_subexpressions = p.common_subexpressions;
  rewriter r(p, *flat);
  r.run([&](std::int32_t i, const node& n) {
    if (!inline_it(n)) return false;
    flat->path = n.path;
    r.set(i, flat->inlined(*with_calls_inlined(*n.subprograms[0], inline_it), r.operands(n)));
    flat->path = p.path;
    return true;
  });
  return flat;
}

}  // namespace lamina
