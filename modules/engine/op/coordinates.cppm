// Elements and rows at coordinates, and operations that compare positions: triangles, one-hot rows, ragged sequences.
export module lamina:op.coordinates;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.index;
import :op.reduce;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// How a scattered update is combined with the element there: it replaces the element, or both are reduced to one.
export enum class scatter_reduction : std::int32_t { none, add, multiply, maximum, minimum };

/// `coordinates`, the number per row, is required only where the last extent of the positions is unknown.
struct gather_nd_attributes {
  static constexpr std::int64_t last_extent = -1;
  std::int64_t batch_dims = 0, coordinates = last_extent;
  static constexpr void members(auto& a, auto&& f) { f("batch_dims", a.batch_dims), f("coordinates", a.coordinates); }
  bool operator==(const gather_nd_attributes&) const = default;
};
struct scatter_nd_attributes {
  scatter_reduction reduction = scatter_reduction::none;
  std::int64_t batch_dims = 0, coordinates = gather_nd_attributes::last_extent;
  static constexpr void members(auto& a, auto&& f) {
    f("reduction", a.reduction), f("batch_dims", a.batch_dims), f("coordinates", a.coordinates);
  }
  bool operator==(const scatter_nd_attributes&) const = default;
};
struct put_along_axis_attributes {
  std::int64_t axis = 0;
  scatter_reduction reduction = scatter_reduction::none;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("reduction", a.reduction); }
  bool operator==(const put_along_axis_attributes&) const = default;
};

namespace detail {
/// Shape of the rows of x at coordinates: the coordinates' axes but the last, then the remaining axes of x.
constexpr bool rows_at_coordinates(const shape& x, const shape& index, const gather_nd_attributes& a, shape& r,
                                   inference& out) {
  const std::int64_t batch = a.batch_dims;
  if (index.rank < 1 ||
      (a.coordinates < 0 ? !index.back().is_number() : !may_equal(index.back(), dim(a.coordinates)))) {
    out.why << "the last extent of the positions must be the number of coordinates of a row";
    return false;
  }
  const std::int64_t parts = a.coordinates < 0 ? index.back().code : a.coordinates;
  if (batch < 0 || batch >= index.rank || parts > x.rank - batch) {
    out.why << parts << " coordinates after " << batch << " batch axes do not fit the ranks";
    return false;
  }
  for (int i = 0; i < batch; ++i)
    if (!may_equal(x[i], index[i])) {
      out.why << "the batch axes differ";
      return false;
    }
  if (index.rank - 1 + x.rank - batch - parts > max_rank) {
    out.why << "the result would have rank " << index.rank - 1 + x.rank - batch - parts << "; the limit is "
            << max_rank;
    return false;
  }
  r = {};
  for (int i = 0; i < index.rank - 1; ++i) r.push_back(i < batch ? better(index[i], x[i]) : index[i]);
  for (int i = static_cast<int>(batch + parts); i < x.rank; ++i) r.push_back(x[i]);
  return true;
}
constexpr bool takes_reduction(dtype element, scatter_reduction r, inference& out) {
  if (r < scatter_reduction::none || r > scatter_reduction::minimum) {
    out.why << "the reduction " << static_cast<int>(r) << " is unknown";
    return false;
  }
  return r == scatter_reduction::none || takes(domain::numbers, element, out);
}
}  // namespace detail

namespace op {
struct gather_nd {
  static constexpr std::string_view name = "gather_nd";
  static constexpr int operands = 2;
  static constexpr bool may_fail = true;
  using attributes = gather_nd_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape r;
    if (!detail::takes_positions(in[1], out)) return;
    if (detail::rows_at_coordinates(in[0].dims, in[1].dims, a, r, out)) out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand with rows at the second's coordinates replaced by, or reduced with, rows of the third.
struct scatter_nd {
  static constexpr std::string_view name = "scatter_nd";
  static constexpr int operands = 3;
  static constexpr bool may_fail = true;
  using attributes = scatter_nd_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape r;
    if (!detail::takes_positions(in[1], out) || !detail::takes_reduction(in[0].element, a.reduction, out)) return;
    if (!detail::rows_at_coordinates(in[0].dims, in[1].dims, {a.batch_dims, a.coordinates}, r, out)) return;
    if (in[0].element != in[2].element || !fits(r, in[2].dims)) {
      out.of_elements = in[0].element != in[2].element;
      out.why << "the updates must be " << in[0].element << r;
      return;
    }
    out.result(in[0].element, in[0].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand with elements at positions along an axis replaced by, or reduced with, those of the third. Along
/// the other axes, too, the positions may be fewer than the operand's.
struct put_along_axis {
  static constexpr std::string_view name = "put_along_axis";
  static constexpr int operands = 3;
  static constexpr bool may_fail = true;
  using attributes = put_along_axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape &x = in[0].dims, &index = in[1].dims;
    if (!detail::takes_positions(in[1], out) || !detail::takes_reduction(in[0].element, a.reduction, out)) return;
    const int axis = detail::indexed_axis(a.axis, x, out);
    if (axis < 0) return;
    bool inside = x.rank == index.rank;
    for (int i = 0; inside && i < x.rank; ++i)
      inside = i == axis || !x[i].is_number() || !index[i].is_number() || index.at(i) <= x.at(i);
    if (!inside) {
      out.why << "the positions must fit the shape of the operand except along axis " << axis;
      return;
    }
    if (in[0].element != in[2].element || !fits(index, in[2].dims)) {
      out.of_elements = in[0].element != in[2].element;
      out.why << "the updates must be " << in[0].element << index;
      return;
    }
    out.result(in[0].element, x);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using coordinate_operations = operation_list<op::gather_nd, op::put_along_axis, op::scatter_nd>;
template <Operation Op> requires coordinate_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- functions ------------------------------------------------------------------------------------------------------
//
// For values of programs and nets. Positions are int64 and may be negative: -1 is the last one. A position out of range
// ends the run with a value_error that names the operation, and no state is assigned.

/// Rows of x at coordinates (ONNX GatherND): result[b, j] = x[b, index[b, j, 0], index[b, j, 1], ...].
/// Shapes:  x [2, 3, 4], index [5, 2] -> [5, 4]; with {.batch_dims = 1} index [2, 5, 1] -> [2, 5, 4].
/// Types:   any, index int64.   Gradient: scatters rows back to where they came from, adding duplicates.
export value gather_nd(const value& x, const value& index, gather_nd_attributes a = {}, const origin& = {});
/// x with rows at coordinates replaced by updates, or reduced with them, in order (ONNX ScatterND).
/// Shapes:  x [8, 4], index [5, 1], updates [5, 4] -> [8, 4].   Types: any, with a reduction float and integer; index int64.
/// Gradient: of updates that overwrite each other, as if each remained; ties of extremes share it equally; of a product
///          by division, so not at updates of 0.
export value scatter_nd(const value& x, const value& index, const value& updates, scatter_nd_attributes a = {},
                        const origin& = {});
/// Elements of x along an axis, each at its own position, as in `take_along_axis`; along other axes of known extents
/// there may be fewer positions than in x (ONNX GatherElements).   Shapes: x [3, V], index [2, 5], axis 1 -> [2, 5].
export value gather_elements(const value& x, const value& index, axis_attributes a = {}, const origin& = {});
/// x with elements at positions along an axis replaced by updates, or reduced with them, in row-major order (ONNX
/// ScatterElements).   Shapes: x [3, V], index and updates [2, 5], axis 1 -> [3, V].   Types and gradient: as `scatter_nd`.
export value scatter_elements(const value& x, const value& index, const value& updates,
                              put_along_axis_attributes a = {}, const origin& = {});

/// Which triangle of the last two axes is kept.
struct trilu_attributes {
  bool upper = true;
};
/// x with zeros below the k-th diagonal, or above it with {.upper = false}; k > 0 is right of the main diagonal.
/// Shapes:  x [..., M, N], k int64 [] or [1].   Types: float, integer, bool.
export value trilu(const value& x, const value& k, trilu_attributes a = {}, const origin& = {});
export value trilu(const value& x, std::int64_t k = 0, trilu_attributes a = {}, const origin& = {});
/// A matrix of the shape of x with ones on the k-th diagonal; only the shape of x is read.
export value eye_like(const value& x, dtype element, std::int64_t k = 0, const origin& = {});

/// Along a new axis, `on` at the position in `index`, `off` elsewhere and for positions out of range (ONNX
/// OneHot).   Shapes: index [2, 3], depth int64 [] or [1], values [2] = {off, on}, axis 1 -> [2, depth, 3].
/// Types: any.
export value one_hot_of(const value& index, const value& depth, const value& values, axis_attributes a = {-1},
                        const origin& = {});
/// Ones at the first largest element along an axis, zeros elsewhere.
export value hardmax(const value& x, axis_attributes a = {-1}, const origin& = {});
/// `argmax` and `argmin` that return the last of equal positions.
export value last_argmax(const value& x, argmax_attributes a = {}, const origin& = {});
export value last_argmin(const value& x, argmax_attributes a = {}, const origin& = {});
/// x in reverse order along an axis.
export value reversed(const value& x, axis_attributes a = {}, const origin& = {});

struct reverse_sequence_attributes {
  std::int64_t time_axis = 0, batch_axis = 1;
};
/// Reverses the first `lengths[b]` positions of each sequence of a batch; the others are unchanged.
/// Shapes:  x [T, B, ...], lengths int64 [B].   Errors: shape_error where both axes are one; value_error in a run for a length
///          above T.
export value reverse_sequence(const value& x, const value& lengths, reverse_sequence_attributes a = {},
                              const origin& = {});

struct tensor_scatter_attributes {
  std::int64_t axis = -2;
  bool circular = false;
};
/// A cache with `updates` written from a start position on along an axis, for each index of the first axis (ONNX
/// TensorScatter).   Shapes: cache [B, ..., S, D], updates [B, ..., T, D], starts int64 [B]. Positions beyond S are an error,
/// or wrap around with {.circular = true}.
export value tensor_scatter(const value& cache, const value& updates, const value& starts,
                            tensor_scatter_attributes a = {}, const origin& = {});
export value tensor_scatter(const value& cache, const value& updates, tensor_scatter_attributes a = {},
                            const origin& = {});

/// Number of elements of x, int64 [].
export value size_of_value(const value& x, const origin& = {});

}  // namespace lamina
