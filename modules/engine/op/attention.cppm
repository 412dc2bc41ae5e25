// Attention and rotary position embeddings.
export module lamina:op.attention;
import :core;
import :dtype;
import :emission;
import :op.elementwise;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// `causal`: query i sees keys j <= i + keys - queries, so that the last query sees all. `scale` 0: 1 / sqrt(depth).
/// `compute`: as in `matmul_attributes`, for both products; softmax stays float32.
export struct attention_attributes {
  bool causal = false;
  double scale = 0;
  product_type compute{};
  static constexpr std::string_view later = "compute";
  static constexpr void members(auto& a, auto&& f) {
    f("causal", a.causal), f("scale", a.scale), f("compute", a.compute);
  }
  bool operator==(const attention_attributes&) const = default;
};
/// `scale` 0: 1 / sqrt(depth).
struct cached_attention_attributes {
  double scale = 0;
  static constexpr void members(auto& a, auto&& f) { f("scale", a.scale); }
  bool operator==(const cached_attention_attributes&) const = default;
};
/// `interleaved`: pairs are adjacent (2 i, 2 i + 1); else (i, i + depth / 2), as in Llama's checkpoints.
struct rope_attributes {
  double base = 10000;
  bool interleaved = false, inverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("base", a.base), f("interleaved", a.interleaved), f("inverse", a.inverse);
  }
  bool operator==(const rope_attributes&) const = default;
};

/// `interleaved`: as in `rope_attributes`.
struct rotary_attributes {
  bool interleaved = false;
  static constexpr void members(auto& a, auto&& f) { f("interleaved", a.interleaved); }
  bool operator==(const rotary_attributes&) const = default;
};

namespace detail {
/// Decomposition of x as [outer, outer_repeat, rows, row_repeat, D], of the tables as [outer, 1, rows, 1, D].
struct rotary_rows {
  std::int64_t extents[4] = {1, 1, 1, 1};
};
/// How table rows repeat along the rows of x, whose extents are numbers; empty if no `rotary_rows` describes it.
constexpr std::optional<rotary_rows> rows_of_rotary(const shape& x, const shape& table) {
  rotary_rows r;
  int level = 0;
  for (int i = 0; i < x.rank - 1; ++i) {
    const int at = i - (x.rank - table.rank);
    const bool repeats = at < 0 || (table.at(at) == 1 && x.at(i) != 1);
    if (x.at(i) == 1) continue;
    if (level % 2 != (repeats ? 1 : 0)) ++level;
    if (level > 3 || (!repeats && table.at(at) != x.at(i))) return {};
    r.extents[level] *= x.at(i);
  }
  return r;
}
}  // namespace detail

namespace detail {
/// Factor of the scores: `scale`, or 1 / sqrt(depth) where it is 0.
inline double attention_scale(double scale, std::int64_t depth) {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(depth));
}
}  // namespace detail

namespace op {
/// Operands: q, k, v, and optionally a mask.
struct attention : in_patterns<rewriting::part_of_heads_pattern> {
  static constexpr std::string_view name = "attention";
  static constexpr int operands = -1;
  static constexpr bool rounds_operands = true;
  static constexpr int rows_first = 3;
  using attributes = attention_attributes;
  static constexpr void infer(const attributes& at, view<const tensor_type> in, inference& out) {
    if (in.size() < 3 || in.size() > 4) {
      out.why << "takes queries, keys, values and an optional mask, not " << in.size() << " operands";
      return;
    }
    const shape &q = in[0].dims, &k = in[1].dims, &v = in[2].dims;
    if (!detail::same_elements({in.first, 3}, out) || !detail::takes(domain::real, in[0].element, out) ||
        !detail::may_compute_in(at.compute, in[0].element, out))
      return;
    if (q.rank < 2 || k.rank != q.rank || v.rank != q.rank) {
      out.why << "queries, keys and values must have the same rank [..., T, D]";
      return;
    }
    const int last = q.rank - 1;
    if (!may_equal(q[last], k[last])) {
      out.why << "queries and keys differ in depth";
      return;
    }
    if (q[last] == dim(0)) {
      out.why << "queries and keys have depth 0";
      return;
    }
    if (!may_equal(k[last - 1], v[last - 1])) {
      out.why << "keys and values differ in number";
      return;
    }
    shape s = q;
    for (int i = 0; i < last - 1; ++i) {
      const bool heads = i == last - 2;
      if (!may_equal(k[i], v[i]) || !(heads ? divides(k[i], q[i]) : may_equal(q[i], k[i]))) {
        out.why << (heads ? "query heads are not a multiple of key and value heads" : "the leading axes differ");
        return;
      }
      if (!heads) s[i] = better(q[i], k[i]);
    }
    s[last] = v[last];
    if (in.size() > 3) {
      if (in[3].element != dtype::boolean && in[3].element != in[0].element) {
        out.refuse(in[3].element, "a mask of bool or of the element type of the queries", "bool");
        return;
      }
      shape score = q, both;
      score[last] = k[last - 1];
      if (!broadcast(in[3].dims, score, both) || !fits(both, score)) {
        out.why << "the mask does not broadcast to the scores " << score;
        return;
      }
    }
    out.result(in[0].element, s);
  }
  static constexpr shape static_shape(view<const tensor_type> in) {
    shape s = in[0].dims;
    s[s.rank - 1] = in[2].dims.back();
    return s;
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    const shape &q = in[0].dims, &v = in[2].dims;
    return 2.0 * static_cast<double>(q.size(0, q.rank - 1)) * static_cast<double>(v.at(v.rank - 2)) *
           static_cast<double>(q.back().code + v.back().code);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);

 private:
  static constexpr bool divides(dim part, dim whole) {
    if (!part.is_number() || !whole.is_number()) return may_equal(part, whole) || part.is_number() || whole.is_number();
    return part.code > 0 ? whole.code % part.code == 0 : whole.code == 0;
  }
};
/// Splits the axis of query heads, third from the end, into two: key heads, and the queries that share one. The number
/// of key heads comes from the second operand's shape; its elements are not read. A broadcast single head gives 1, 1.
struct group_heads {
  static constexpr std::string_view name = "group_heads";
  static constexpr int operands = 2, alias = 0;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape &x = in[0].dims, &keys = in[1].dims;
    if (x.rank < 3 || keys.rank < 3) {
      out.why << "both operands must have heads [..., heads, rows, columns]";
      return;
    }
    if (x.rank == max_rank) {
      out.why << "the result would have rank " << max_rank + 1 << "; the limit is " << max_rank;
      return;
    }
    const dim all = x[x.rank - 3], heads = keys[keys.rank - 3];
    dim shared = dyn, groups = all.is_number() ? heads : dim(dyn);
    if (all == dim(1)) groups = shared = 1;
    else if (all.is_number() && heads.is_number()) {
      if (heads.code > 0 ? all.code % heads.code != 0 : all.code != 0) {
        out.why << heads << " key heads do not divide " << all;
        return;
      }
      shared = heads.code > 0 ? dim(all.code / heads.code) : dim(1);
    }
    shape s;
    for (int i = 0; i < x.rank; ++i) {
      if (i != x.rank - 3) {
        s.push_back(x[i]);
        continue;
      }
      s.push_back(groups);
      s.push_back(shared);
    }
    out.result(in[0].element, s);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Operands: q, k, v of a block; cached keys and values; the number of valid cached positions, int64 [1].
struct cached_attention {
  static constexpr std::string_view name = "cached_attention";
  static constexpr int operands = 6;
  static constexpr bool may_fail = true;
  using attributes = cached_attention_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape &q = in[0].dims, &k = in[1].dims, &v = in[2].dims;
    attention::infer({}, {in.first, 3}, out);
    if (!out.why.empty()) return;
    out.count = 0;
    if (!detail::same_elements({in.first, 5}, out)) return;
    if (in[5].element != dtype::int64) {
      out.refuse(in[5].element, "an int64 count of earlier positions", "std::int64_t");
      return;
    }
    if (!fits(shape{1}, in[5].dims)) {
      out.why << "the count of earlier positions must be [1]";
      return;
    }
    if (!may_equal(q[q.rank - 2], k[q.rank - 2])) {
      out.why << "queries and keys differ in number";
      return;
    }
    if (!same_except_capacity(k, in[3].dims) || !same_except_capacity(v, in[4].dims) ||
        !may_equal(in[3].dims[q.rank - 2], in[4].dims[q.rank - 2])) {
      out.why << "the cache must have the shape of keys and values except for the number of positions";
      return;
    }
    shape s = q;
    s[q.rank - 1] = v.back();
    out.result(in[0].element, s);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return attention::static_shape(in); }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    const shape &q = in[0].dims, &keys = in[3].dims;
    return 2.0 * static_cast<double>(q.size(0, q.rank - 1)) * static_cast<double>(keys.at(q.rank - 2)) *
           static_cast<double>(q.back().code + in[2].dims.back().code);
  }
  static void emit(emission&);

 private:
  static constexpr bool same_except_capacity(const shape& block, const shape& memory) {
    if (memory.rank != block.rank) return false;
    for (int i = 0; i < block.rank; ++i)
      if (i != block.rank - 2 && !may_equal(block[i], memory[i])) return false;
    return true;
  }
};
/// 0, 1, ... along an axis; only its extent is read.
struct positions {
  static constexpr std::string_view name = "positions";
  static constexpr int operands = 1;
  static constexpr unsigned shape_only = 1;
  using attributes = axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const int axis = detail::normal_axis(a.axis, in[0].dims.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    out.result(dtype::int64, shape{in[0].dims[axis]});
  }
  static void emit(emission&);
};
/// Which keys each query sees, for scores [..., queries, keys]: bool [queries, keys]; only the shape is read.
export struct causal_mask {
  static constexpr std::string_view name = "causal_mask";
  static constexpr int operands = 1;
  static constexpr unsigned shape_only = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    if (s.rank < 2) {
      out.why << "scores [..., queries, keys] are expected";
      return;
    }
    out.result(dtype::boolean, shape{s[s.rank - 2], s[s.rank - 1]});
  }
  static void emit(emission&);
};
struct rope {
  static constexpr std::string_view name = "rope";
  static constexpr int operands = 2;
  using attributes = rope_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape &x = in[0].dims, &at = in[1].dims;
    if (!detail::takes(domain::real, in[0].element, out)) return;
    if (in[1].element != dtype::int64) {
      out.refuse(in[1].element, "int64 positions", "std::int64_t");
      return;
    }
    if (x.rank < 2) {
      out.why << "[..., T, D] is expected";
      return;
    }
    if (x.back().is_number() && x.back().code % 2) {
      out.why << "a depth of " << x.back() << " is odd";
      return;
    }
    if (!(a.base > 0)) {
      out.why << "the base must be positive";
      return;
    }
    shape rows = x;
    --rows.rank;
    if (!(at.rank == 1 && may_equal(at[0], rows.back())) && !fits(rows, at)) {
      out.why << "the positions must have the shape [T] or that of the operand without its last axis";
      return;
    }
    out.result(in[0].element, x);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return in[0].dims; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 3.0 * static_cast<double>(in[0].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Operands: x, cosines, sines.
struct rotary_embedding {
  static constexpr std::string_view name = "rotary_embedding";
  static constexpr int operands = 3;
  using attributes = rotary_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape &x = in[0].dims, &table = in[1].dims;
    if (!detail::same_elements(in, out) || !detail::takes(domain::real, in[0].element, out)) return;
    if (x.rank < 2) {
      out.why << "[..., T, D] is expected";
      return;
    }
    if (x.back().is_number() && x.back().code % 2) {
      out.why << "a depth of " << x.back() << " is odd";
      return;
    }
    bool fits = table.rank >= 1 && table.rank <= x.rank && in[2].dims.rank == table.rank;
    for (int i = 0; fits && i < table.rank; ++i) {
      const dim of_x = x[i + x.rank - table.rank];
      const bool last = i == table.rank - 1;
      fits = may_equal(table[i], in[2].dims[i]) && (may_equal(table[i], of_x) || (!last && table[i] == dim(1)));
    }
    if (fits && x.is_static() && table.is_static()) fits = detail::rows_of_rotary(x, table).has_value();
    if (!fits) {
      out.why << "cosines and sines must broadcast to the operand and have its depth";
      return;
    }
    out.result(in[0].element, x);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return in[0].dims; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 3.0 * static_cast<double>(in[0].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using attention_operations = operation_list<op::attention, op::cached_attention, op::causal_mask, op::group_heads,
                                            op::positions, op::rope, op::rotary_embedding>;
template <Operation Op> requires attention_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace detail {
/// Attention weights: softmax(query key^T + mask) over the visible keys; zeros for a query that sees none.
/// Shapes:  query [..., T, D], scaled, key [..., S, D] -> [..., T, S]; `mask`, if not null, broadcasts to that.
/// `compute`: as in `matmul_attributes`.
template <class V>
constexpr V attention_weights(const V& query, const V& key, bool causal, const V* mask, product_type compute = {}) {
  V scores(lamina::matmul(query, key, {.transpose_b = true, .compute = compute}));
  if (!mask && !causal) return V(lamina::softmax(scores));
  // Below every real score, but finite: the softmax of a row of it alone is defined, and replaced by zeros afterwards.
  constexpr double unseen = -1e30;
  if (mask && operand_element(*mask) == dtype::boolean) scores = V(lamina::where(*mask, scores, unseen));
  else if (mask) scores = V(lamina::max(scores + *mask, unseen));
  if (causal) scores = V(lamina::where(apply<op::causal_mask>({}, scores), scores, unseen));
  return V(lamina::where(scores <= unseen, 0, lamina::softmax(scores)));
}
}  // namespace detail

/// Scaled dot-product attention: softmax(scale q k^T + mask) v.
/// Shapes:  q [..., H, T, D], k [..., G, S, D], v [..., G, S, E] -> [..., H, T, E]; G divides H, and H / G query heads share
///          a key head. The mask broadcasts to [..., H, T, S]: bool (true: visible), or added numbers.
/// Numerics: a query that sees no key gives zeros, not NaN; each row is computed on its own, however the work is split.
///          Memory: a packed copy of one head's keys and 64 rows of scores per thread; the gradient stores all scores.
/// Errors:  shape_error where depths, key counts, heads or the mask do not fit.
/// Source:  Vaswani et al., "Attention Is All You Need" (2017), arXiv:1706.03762; Ainslie et al., "GQA" (2023), arXiv:2305.13245.
export template <Symbolic Q, Symbolic K, Symbolic V, Symbolic M>
requires accepted<diagnostic<applying<op::attention, Q, K, V, M>>()>
constexpr auto attention(const Q& q, const K& k, const V& v, const M& mask, attention_attributes a = {},
                         origin_of<Q, K, V, M> = {}) {
  return apply<op::attention>(a, q, k, v, mask);
}
// The attributes' type is deduced, so that a mask of the wrong type is not diagnosed as wrong attributes.
export template <Symbolic Q, Symbolic K, Symbolic V, std::same_as<attention_attributes> A = attention_attributes>
requires accepted<diagnostic<applying<op::attention, Q, K, V>>()>
constexpr auto attention(const Q& q, const K& k, const V& v, A a = {}, origin_of<Q, K, V> = {}) {
  return apply<op::attention>(a, q, k, v);
}

/// Causal attention of a block of positions to a key/value cache and to itself: each position sees the whole cache and
/// the positions of its block up to itself.
/// Shapes:  q [..., H, B, D], k [..., G, B, D], v [..., G, B, E]; keys [..., G, room, D], values [..., G, room, E],
///          whose first `count` positions are read, count int64 [1] -> [..., H, B, E]; G divides H.
/// Numerics: rows sum first over the cache, then over the block: last bits differ from `attention` over the whole.
/// Errors:  shape_error where shapes do not fit; value_error in a run with a count outside 0..room. No gradient.
export template <Symbolic Q, Symbolic K, Symbolic V, Symbolic Keys, Symbolic Values, Symbolic Count>
requires accepted<diagnostic<applying<op::cached_attention, Q, K, V, Keys, Values, Count>>()>
constexpr auto cached_attention(const Q& q, const K& k, const V& v, const Keys& keys, const Values& values,
                                const Count& count, cached_attention_attributes a = {},
                                origin_of<Q, K, V, Keys, Values, Count> = {}) {
  return apply<op::cached_attention>(a, q, k, v, keys, values, count);
}

/// The numbers 0, 1, ... along an axis of x; only the extent is read.
/// Shapes: x [N, T, 8], axis 1 -> int64 [T].
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::positions, rank_of_rule, X>>()>
constexpr auto positions(const X& x, std::int64_t axis, origin_of<X> = {}) {
  return apply_of_rank<op::positions, rank_of_rule>({axis}, x);
}
export template <Symbolic X, std::same_as<axis_attributes> A = axis_attributes>
requires accepted<diagnostic<applying_of_rank<op::positions, rank_of_rule, X>>()>
constexpr auto positions(const X& x, A a, origin_of<X> = {}) {
  return apply_of_rank<op::positions, rank_of_rule>(a, x);
}
export template <int Axis, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::positions, axis_attributes{Axis}, X>>()>
constexpr auto positions(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::positions, axis_attributes{Axis}>(x);
}

/// Rotates pairs of the last axis by angles position * base^(-2 i / D).
/// Shapes:  x [..., T, D], D even, positions int64 [T] or of x's shape without its last axis -> shape of x.
/// Source:  Su et al., "RoFormer" (2021), arXiv:2104.09864.
export template <Symbolic X, Symbolic P> requires accepted<diagnostic<applying<op::rope, X, P>>()>
constexpr auto rope(const X& x, const P& positions, rope_attributes a = {}, origin_of<X, P> = {}) {
  return apply<op::rope>(a, x, positions);
}
/// Rotates pairs of the last axis by angles whose cosines and sines are given: x cosines + rotated(x) sines, where
/// `rotated` maps a pair (a, b) to (-b, a).
/// Shapes:  x [..., D], D even, cosines and sines [..., D] that broadcast to it, as [T, D], [N, 1, T, D] -> shape of x.
/// Errors:  shape_error where the tables do not fit.
/// Source:  Su et al., "RoFormer" (2021), arXiv:2104.09864.
export template <Symbolic X, Symbolic C, Symbolic S>
requires accepted<diagnostic<applying<op::rotary_embedding, X, C, S>>()>
constexpr auto rotary_embedding(const X& x, const C& cosines, const S& sines, rotary_attributes a = {},
                                origin_of<X, C, S> = {}) {
  return apply<op::rotary_embedding>(a, x, cosines, sines);
}

}  // namespace lamina
