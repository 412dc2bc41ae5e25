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

/// Axis i of the result is axis order[i] of x.
export struct permute {
  axes order{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::permute(x, order); }
};
/// The last two axes exchanged.   Shapes: [..., M, N] -> [..., N, M].
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
/// The axes put back where `permute` with this order took them from.
export struct permute_inverse {
  axes order{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::permute_inverse(x, order); }
};
/// New axes of one element.
export struct unsqueeze {
  lamina::axes axes{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::unsqueeze(x, axes); }
};
/// Without axes of one element; without all of them where none is named.
export struct squeeze {
  lamina::axes axes{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::squeeze(x, axes); }
};
/// The same elements under another shape; one extent may be `dyn` and is then inferred.
export struct reshape {
  shape to{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::reshape(x, to); }
};
/// Positions start, start + step, ... below stop of one axis.
export struct slice {
  std::int64_t start = 0, stop = std::numeric_limits<std::int64_t>::max(), axis = 0, step = 1;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::slice(x, {.start = start, .stop = stop, .axis = axis, .step = step});
  }
};
/// Adds positions that hold one number before and after an axis.
export struct pad {
  std::int64_t axis = -1, before = 0, after = 0;
  double value = 0;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::pad(x, {.axis = axis, .before = before, .after = after, .value = value});
  }
};
/// Each axis as often as its number says.
export struct tile {
  shape repeats{};
  constexpr auto forward(auto&, const auto& x) const { return lamina::tile(x, repeats); }
};
/// Each position of an axis so often, one behind the other.
export struct repeat {
  std::int64_t count = 1, axis = 0;
  constexpr auto forward(auto&, const auto& x) const { return lamina::repeat(x, count, axis); }
};
/// lhs and rhs along a new axis.
export struct stack {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const {
    const lamina::axes at(axis);
    return apply<op::concat>({axis}, lamina::unsqueeze(lhs, at), lamina::unsqueeze(rhs, at));
  }
};
/// Equal parts of an axis, at most 8, each an output of its own.
export struct split {
  static constexpr bool has_forward_ports = true;
  std::int64_t parts = 2, axis = 0;
  constexpr view<const label> inputs() const { return port_names<"input">; }
  constexpr view<const label> outputs() const {
    constexpr auto& all = port_names<"part0", "part1", "part2", "part3", "part4", "part5", "part6", "part7">;
    return {all.data(), static_cast<std::size_t>(parts < 1 ? 1 : parts > 8 ? 8 : parts)};
  }
  constexpr void check(view<const tensor_type>, text& why) const {
    if (parts < 1 || parts > 8) why << "split has 1 to 8 parts and is given " << parts;
  }
  template <class S, class V> constexpr void forward_ports(S&, view<const V> in, view<V> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = apply<op::equal_part>({.axis = axis, .part = static_cast<std::int64_t>(i), .parts = parts}, in[0]);
  }
};
/// rhs behind lhs along an axis.
export struct concat {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return apply<op::concat>({axis}, lhs, rhs); }
};

namespace detail {
// Axes by member, else by policy; kept if either says so.
constexpr reduce_attributes reduction(const auto& scope, const lamina::axes& axes, bool keepdim) {
  return {.axes = axes.count ? axes : policy_of<lamina::axes>(scope),
          .keepdim = keepdim || policy_of<lamina::keepdim>(scope).value};
}
}  // namespace detail

/// Sum, mean, largest or smallest element, or product over axes; of all axes where none is named. The policies `axes(...)` and
/// `keepdim(true)` speak where the members do not.
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
/// Whether any, or each, of the truths over axes holds.
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
