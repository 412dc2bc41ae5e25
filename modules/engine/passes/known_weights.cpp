// Products that are faster as other operations once their weights are known (`operation::with_known_weights`).
module lamina:passes.known_weights;
import :core;
import :op;
import :op.shape;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// Copies a program and replaces such products, together with the terms of their channels.
class known_weights {
 public:
  explicit known_weights(const program& from) : copy_(from, to_), reads_(from.nodes().size()) {
    to_.common_subexpressions = from.common_subexpressions;
    for (const auto& n : from.nodes())
      for (auto v : n.inputs) ++reads_[static_cast<std::size_t>(v.node)];
    for (const auto& o : from.outputs()) ++reads_[static_cast<std::size_t>(o.value.node)];
    for (const auto& a : from.assignments()) ++reads_[static_cast<std::size_t>(a.value.node)];
  }

  /// The new program; empty if there is nothing to replace. `is_known(value_id)`: of the given program.
  template <class F> std::optional<program> run(F is_known) {
    bool any = false;
    copy_.run([&](std::int32_t i, const node& n) {
      to_.path = n.path;
      value made = of_product(n, {}, is_known);
      if (made.empty() && n.op && n.op->adds && n.inputs.size() == 2)
        for (std::size_t k : {0u, 1u})
          if (made.empty()) made = with_term(n, n.inputs[k], n.inputs[1 - k], is_known);
      if (made.empty() || made.type() != n.results[0]) return false;
      any = true;
      copy_.set({i, 0}, made);
      return true;
    });
    return any ? std::optional<program>(std::move(to_)) : std::nullopt;
  }

 private:
  template <class F> value of_product(const node& n, const value& term, F is_known) const {
    if (!n.op || !n.op->with_known_weights || !is_known(n.inputs[1])) return {};
    return n.op->with_known_weights(n.attributes.get(), copy_.at(n.inputs[0]), copy_.at(n.inputs[1]), term);
  }
  bool is_read_once(value_id v) const { return reads_[static_cast<std::size_t>(v.node)] == 1; }

  // The sum of such a product that nothing else reads, or of a view of it, and a number for each of its channels; empty
  // if it is not one.
  template <class F> value with_term(const node& n, value_id product, value_id term, F is_known) {
    const auto& from = copy_.from;
    const node& around = from.at(product);
    const bool viewed = around.op && around.op->alias == 0;  // as the image of one row of a sequence
    const value_id inner = viewed ? around.inputs[0] : product;
    const node& made = from.at(inner);
    const shape &s = from.type(term).dims, &y = n.results[0].dims, &images = from.type(inner).dims;
    if (!made.op || !made.op->with_known_weights || from.type(product) != n.results[0] || !is_read_once(product) ||
        !is_read_once(inner) || !is_known(term) || y.rank < 2)
      return {};
    if (viewed && (y[0] == dim(dyn) || y[0] != images[0] || y[1] != images[1])) return {};
    const int axis = s.rank - y.rank + 1;  // of the channels
    if (axis < 0 || !y[1].is_number() || s[axis] != y[1] || s.size() != y.at(1)) return {};
    const value sum = of_product(made, reshape(copy_.at(term), {y[1]}), is_known);
    if (sum.empty() || !viewed) return sum;
    std::vector<value> in = copy_.operands(around);
    in[0] = sum;
    return {&to_, to_.add(*around.op, around.attributes, in, around.subprograms)};
  }

  program to_;
  rewriter copy_;
  std::vector<std::int64_t> reads_;  // of each node of the given program
};

}  // namespace lamina::rewriting
