// Layers that rearrange, join, cut and reduce their input; what they do is a member.
export module lamina:layer.rearrange;
import :core;
import :layer;
import :op;
import :op.reduce;
import :op.shape;
import :policy.kinds;
import :op.tile;
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
/// Positions of one number before and after those of an axis.
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
/// rhs behind lhs along an axis.
export struct concat {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return ports<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return apply<op::concat>({axis}, lhs, rhs); }
};

namespace detail {
// Axes by member, else by policy; kept if either says so.
constexpr reduce_attributes reduction(const auto& scope, const lamina::axes& axes, bool keepdim) {
  return {.axes = axes.count ? axes : policy_of<lamina::axes>(scope),
          .keepdim = keepdim || policy_of<lamina::keepdim>(scope).value};
}
}  // namespace detail

/// Sum, mean, largest or smallest element over axes; of all axes where none is named. The policies `axes(...)` and
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

}  // namespace lamina::nn
