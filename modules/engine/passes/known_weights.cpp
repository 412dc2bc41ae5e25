// Products that are faster as other operations once their weights are known (`operation::with_known_weights`).
module lamina:passes.known_weights;
import :core;
import :op;
import :op.shape;
import :passes.pattern;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// Copies a program and replaces such products, together with the terms of their channels.
class known_weights {
 public:
  explicit known_weights(const program& from) : from_(from), copy_(from, to_) {
    to_.common_subexpressions = from.common_subexpressions;
  }

  /// The new program; empty if there is no such product. `is_known(value_id)`: of the given program.
  template <class F> std::optional<program> run(F is_known) {
    const auto& nodes = copy_.from.nodes();
    if (std::none_of(nodes.begin(), nodes.end(), may_be_replaced)) return {};
    copy_.run([&](std::int32_t i, const node& n) {
      to_.path = n.path;
      value made = of_product(n, {}, is_known);
      if (made.empty() && n.op && n.op->adds && n.inputs.size() == 2)
        for (std::size_t k : {0u, 1u})
          if (made.empty()) made = with_term(n, n.inputs[k], n.inputs[1 - k], is_known);
      if (made.empty() || made.type() != n.results[0]) return false;
      copy_.set({i, 0}, made);
      return true;
    });
    return std::move(to_);
  }

 private:
  static bool may_be_replaced(const node& n) { return n.op && n.op->with_known_weights; }
  template <class F> value of_product(const node& n, const value& term, F is_known) const {
    if (!may_be_replaced(n) || !is_known(n.inputs[1])) return {};
    return n.op->with_known_weights(n.attributes.get(), copy_.at(n.inputs[0]), copy_.at(n.inputs[1]), term);
  }

  // The sum of such a product that nothing else reads, or of a view of it, and a number for each of its channels; empty
  // if it is not one.
  template <class F> value with_term(const node& n, value_id product, value_id term, F is_known) {
    const node& around = from_.at(product);
    const bool viewed = around.op && around.op->alias == 0;  // as the image of one row of a sequence
    const value_id inner = viewed ? around.inputs[0] : product;
    const node& made = from_.at(inner);
    const shape &s = from_.type(term).dims, &y = n.results[0].dims, &images = from_.type(inner).dims;
    if (!may_be_replaced(made) || from_.type(product) != n.results[0] || !from_.inner(product) || !from_.inner(inner) ||
        !is_known(term) || y.rank < 2)
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

  pattern_graph from_;
  program to_;
  rewriter copy_;
};

}  // namespace lamina::rewriting
