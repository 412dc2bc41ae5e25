// Low-rank adapters in programs: rewrites a traced program whose weights have adapters.
module lamina:model.adapted;
import :core;
import :dtype;
import :model;
import :op;
import :op.elementwise;
import :op.linear;
import :op.shape;
import :op.view;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Channel axis of the matrix if the node is a product with it whose result has its channels on the last axis; else -1.
inline int channels_of_matrix(const program& p, const node& n) {
  if (n.kind != node_kind::operation || !n.op->channels || n.inputs.size() != 2 || n.results.size() != 1) return -1;
  const shape &w = p.type(n.inputs[1]).dims, &y = n.results[0].dims;
  if (w.rank != 2) return -1;
  const channel_axes at = n.op->channels(n.attributes.get(), y, w);
  return at.result == y.rank - 1 ? at.weights : -1;
}

/// Shapes of the factors of an adapter: a [rank, in], b [out, rank]. For a weight that is not a matrix, `out` is its
/// first extent and `in` the product of the others.
struct factor_shapes {
  shape a, b;
};
inline factor_shapes factors_of(const shape& weight, std::int64_t rank, bool transposed) {
  const std::int64_t first = weight.at(0), rest = weight.size() / std::max<std::int64_t>(first, 1);
  return transposed ? factor_shapes{{rank, first}, {rest, rank}} : factor_shapes{{rank, rest}, {first, rank}};
}

/// An adapter's factors as values of a program.
struct adapter_values {
  const weight_adapter* of;
  value a, b;
  adapter_values(program& p, const weight_adapter& adapter, const tensor_type& weight) : of(&adapter) {
    const auto s = factors_of(weight.dims, adapter.rank, adapter.transposed);
    a = p.state(adapter.a(), {weight.element, s.a});
    b = p.state(adapter.b(), {weight.element, s.b});
  }
  /// The weight with the product of both factors added.
  value added_to(const value& w) const {
    const value product =
        of->transposed ? value(matmul(a, b, {.transpose_a = true, .transpose_b = true})) : value(matmul(b, a, {}));
    return w + reshape(product, w.shape()) * of->scale;
  }
};

/// Copies a program with adapters. Adds scale (x a^T) b^T to a product y of x and an adapted matrix, which is cheap for
/// a low rank; other readers of an adapted weight read the weight plus the product of both factors. Copies assignments.
inline std::vector<value> with_adapters(const program& plain, program& into, view<const weight_adapter> adapters,
                                        view<const value> inputs) {
  rewriter copy(plain, into);
  for (std::size_t i = 0; i < inputs.size(); ++i) copy.set({plain.inputs()[i], 0}, inputs[i]);
  std::map<std::int32_t, adapter_values> of;  // by node of the weight
  std::map<std::int32_t, value> whole;        // weight plus adapter, for weights whose sum is read
  const auto adapted = [&](value_id v) {
    const auto at = of.find(v.node);
    if (at == of.end()) return copy.at(v);
    value& w = whole[v.node];
    if (w.empty()) w = at->second.added_to(copy.at(v));
    return w;
  };
  const auto needed = plain.reachable();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(plain.nodes().size()); ++i) {
    const node& n = plain.at(i);
    if (n.kind == node_kind::input || !needed[static_cast<std::size_t>(i)]) continue;
    if (n.kind != node_kind::operation) {
      copy.copy(i);
      const auto a = std::find_if(adapters.begin(), adapters.end(),
                                  [&](const weight_adapter& each) { return each.weight == n.name; });
      if (n.kind == node_kind::state && a != adapters.end()) of.emplace(i, adapter_values(into, *a, n.results[0]));
      continue;
    }
    const auto product = n.inputs.size() == 2 ? of.find(n.inputs[1].node) : of.end();
    const int channels = channels_of_matrix(plain, n);
    const bool low_rank = product != of.end() && channels >= 0 && (channels == 1) == product->second.of->transposed;
    std::vector<value> in;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      in.push_back((low_rank && k == 1) || !n.reads_data(k) ? copy.at(n.inputs[k]) : adapted(n.inputs[k]));
    copy.copy(i, in);
    if (!low_rank) continue;
    const path_of here(into, n.path);
    const auto& [adapter, a, b] = product->second;
    in[1] = channels == 1 ? apply_outside_patterns<op::permute>({axes(1, 0)}, {&a, 1}) : a;
    const value x(&into, into.add(*n.op, n.attributes, in));
    copy.set({i, 0}, copy.at({i, 0}) + matmul(x, b, {.transpose_b = true}) * adapter->scale);
  }
  for (const auto& a : plain.assignments()) into.assign(copy.at({a.state, 0}), copy.at(a.value));
  into.sites(std::max(into.sites(), plain.sites()));
  std::vector<value> results;
  for (const auto& o : plain.outputs()) results.push_back(adapted(o.value));
  return results;
}

}  // namespace lamina
