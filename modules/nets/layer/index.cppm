// Layers that look up, order and accumulate elements along an axis; their options are members.
export module lamina:layer.index;
import :core;
import :dtype;
import :layer;
import :op;
import :op.attention;
import :op.index;
import :op.reduce;
import :op.view;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Slices of an axis at int64 positions.   Shapes: input [V, 4], index [2, 3], axis 0 -> [2, 3, 4].
export struct gather {
  std::int64_t axis = 0;
  static constexpr view<const label> inputs() { return port_names<"input", "index">; }
  constexpr auto forward(auto&, const auto& x, const auto& index) const { return lamina::gather(x, index, axis); }
};
/// Elements along an axis, each at its own int64 position.   Shapes: input [3, V], index [3, 5], axis 1 -> [3, 5].
export struct take_along_axis {
  std::int64_t axis = -1;
  static constexpr view<const label> inputs() { return port_names<"input", "index">; }
  constexpr auto forward(auto&, const auto& x, const auto& index) const {
    return lamina::take_along_axis(x, index, axis);
  }
};
/// Adds updates to the input at positions along an axis; duplicate positions accumulate.
/// Shapes: input [3, V], index and updates [3, 5], axis 1 -> [3, V].
export struct scatter_add {
  std::int64_t axis = -1;
  static constexpr view<const label> inputs() { return port_names<"input", "index", "updates">; }
  constexpr auto forward(auto&, const auto& x, const auto& index, const auto& updates) const {
    return lamina::scatter_add(x, index, updates, axis);
  }
};
/// Slice at one position of an axis; the axis is removed.
export struct select {
  std::int64_t axis = 0, index = 0;
  constexpr auto forward(auto&, const auto& x) const { return lamina::select(x, axis, index); }
};
/// One-hot encoding of int64 positions along a new last axis.   Shapes: [2, 3] -> [2, 3, depth].
export struct one_hot {
  std::int64_t depth = 1;
  dtype element = dtype::float32;
  constexpr auto forward(auto&, const auto& x) const { return lamina::to_one_hot(x, depth, element); }
};
/// Running sums along an axis; `exclusive` omits the element itself, `reverse` sums from the end.
export struct cumsum {
  std::int64_t axis = -1;
  bool exclusive = false, reverse = false;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::cumsum(x, {.axis = axis, .exclusive = exclusive, .reverse = reverse});
  }
};
/// Position of the largest element along an axis, int64; the first one for ties.
export struct argmax {
  std::int64_t axis = -1;
  bool keepdim = false;
  constexpr auto forward(auto&, const auto& x) const {
    return apply<op::argmax>({.axis = axis, .keepdim = keepdim}, x);
  }
};
/// Positions that sort the elements along an axis, int64.
export struct argsort {
  std::int64_t axis = -1;
  bool descending = false;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::argsort(x, {.axis = axis, .descending = descending});
  }
};
/// Elements sorted along an axis.
export struct sort {
  std::int64_t axis = -1;
  bool descending = false;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::sort(x, {.axis = axis, .descending = descending});
  }
};
/// The k largest or smallest elements along an axis in sorted order, and their int64 positions.
export struct top_k {
  std::int64_t k = 1, axis = -1;
  bool largest = true;
  static constexpr view<const label> outputs() { return port_names<"values", "indices">; }
  constexpr auto forward(auto&, const auto& x) const {
    auto all = lamina::top_k(x, {.k = k, .axis = axis, .largest = largest});
    using made = std::remove_cvref_t<decltype(x)>;
    return std::array<made, 2>{made(all.values), made(all.indices)};
  }
};
/// Rotary position embedding: rotates pairs of the last axis by angles proportional to the position.
/// Shapes: input [..., T, D], D even, positions int64 [T] or the input's without its last axis.
export struct rope {
  double base = 10000;
  bool interleaved = false;
  static constexpr view<const label> inputs() { return port_names<"input", "positions">; }
  constexpr auto forward(auto&, const auto& x, const auto& positions) const {
    return lamina::rope(x, positions, {.base = base, .interleaved = interleaved});
  }
};

}  // namespace lamina::nn
