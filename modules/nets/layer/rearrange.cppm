// Layers that rearrange, join, cut and reduce their input; their options are members.
export module lamina:layer.rearrange;
import :core;
import :layer;
import :op;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :policy.kinds;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Reorders axes: axis i of the result is axis order[i] of x.
export struct permute {
  axes order{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::permute(x, order); }
};
/// Exchanges the last two axes.   Shapes: [..., M, N] -> [..., N, M].
export struct transpose {
  constexpr void check(view<const tensor_type> x, text& why) const {
    if (x[0].dims.rank < 2) why << "transpose expects at least two axes but is given " << x[0].dims;
  }
  constexpr auto forward(auto&, const auto& x) const {
    const int rank = x.shape().rank;
    axes order;
    for (int i = 0; i < rank; ++i) order.values[order.count++] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return lamina::permute(x, order);
  }
};
/// Inverse of `permute` with the same order: axis order[i] of the result is axis i of x.
export struct permute_inverse {
  axes order{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::permute_inverse(x, order); }
};
/// Adds axes of extent 1 at the given positions of the result.
export struct unsqueeze {
  lamina::axes axes{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::unsqueeze(x, axes); }
};
/// Removes the given axes of extent 1, or all axes of extent 1 if none is given.
export struct squeeze {
  lamina::axes axes{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::squeeze(x, axes); }
};
/// The same elements in another shape; one extent may be `dyn` and is inferred.
export struct reshape {
  shape to{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::reshape(x, to); }
};
/// Selects positions start, start + step, ... before stop of one axis.
export struct slice {
  std::int64_t start = 0, stop = std::numeric_limits<std::int64_t>::max(), axis = 0, step = 1;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::slice(x, {.start = start, .stop = stop, .axis = axis, .step = step});
  }
};
/// Pads an axis with a number before and after its elements.
export struct pad {
  std::int64_t axis = -1, before = 0, after = 0;
  double value = 0;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::pad(x, {.axis = axis, .before = before, .after = after, .value = value});
  }
};
/// Repeats the whole tensor repeats[i] times along axis i.
export struct tile {
  shape repeats{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::tile(x, repeats); }
};
/// Repeats each position of an axis `count` times in a row.
export struct repeat {
  std::int64_t count = 1, axis = 0;
  constexpr auto forward(auto&, const auto& x) const { return lamina::repeat(x, count, axis); }
};
/// Stacks lhs and rhs along a new axis.
export struct stack {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const {
    const lamina::axes at(axis);
    return apply<op::concat>({axis}, lamina::unsqueeze(lhs, at), lamina::unsqueeze(rhs, at));
  }
};
/// Splits an axis into equal parts, at most 8, each a separate output.
export struct split {
  static constexpr bool has_forward_ports = true;
  std::int64_t parts = 2, axis = 0;
  constexpr view<const label> inputs() const { return port_names<"input">; }
  constexpr view<const label> outputs() const {
    constexpr auto& all = port_names<"part0", "part1", "part2", "part3", "part4", "part5", "part6", "part7">;
    return {all.data(), static_cast<std::size_t>(parts < 1 ? 1 : parts > 8 ? 8 : parts)};
  }
  constexpr void check(view<const tensor_type>, text& why) const {
    if (parts < 1 || parts > 8) why << "split takes 1 to 8 parts; got " << parts;
  }
  template <class S, class V> constexpr void forward_ports(S&, view<const V> in, view<V> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = apply<op::equal_part>({.axis = axis, .part = static_cast<std::int64_t>(i), .parts = parts}, in[0]);
  }
};
/// Concatenates lhs and rhs along an axis.
export struct concat {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return apply<op::concat>({axis}, lhs, rhs); }
};

namespace detail {
// Axes from the member, else from the policy; reduced axes are kept if either `keepdim` is true.
constexpr reduce_attributes reduction(const auto& scope, const lamina::axes& axes, bool keepdim) {
  return {.axes = axes.count ? axes : policy_of<lamina::axes>(scope),
          .keepdim = keepdim || policy_of<lamina::keepdim>(scope).value};
}
}  // namespace detail

/// Sum, mean, maximum, minimum or product over axes; over all axes if none is given. The policies `axes(...)` and
/// `keepdim(true)` apply if the members are not set.
export struct reduce_sum {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_sum(x, detail::reduction(s, axes, keepdim));
  }
};
export struct reduce_mean {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_mean(x, detail::reduction(s, axes, keepdim));
  }
};
export struct reduce_max {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_max(x, detail::reduction(s, axes, keepdim));
  }
};
export struct reduce_min {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_min(x, detail::reduction(s, axes, keepdim));
  }
};
export struct reduce_prod {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_prod(x, detail::reduction(s, axes, keepdim));
  }
};
/// Whether any (reduce_any) or every (reduce_all) bool over axes is true; over all axes if none is given.
export struct reduce_any {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_any(x, detail::reduction(s, axes, keepdim));
  }
};
export struct reduce_all {
  lamina::axes axes{};
  bool keepdim = false;
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::reduce_all(x, detail::reduction(s, axes, keepdim));
  }
};

}  // namespace lamina::nn
