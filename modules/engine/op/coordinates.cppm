// Elements and rows at coordinates, and formulas that compare positions: triangles, one-hot rows, sequences of several lengths.
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

/// What becomes of an element and of what is scattered to its place: it is replaced, or both are reduced to one.
export enum class scatter_reduction : std::int32_t { none, add, multiply, maximum, minimum };

/// The number of coordinates of a row need be said only where the last extent of the positions is not known.
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
/// The rows of x that coordinates name: the shape of the coordinates without their last axis, then the axes that are left.
constexpr bool rows_at_coordinates(const shape& x, const shape& index, const gather_nd_attributes& a, shape& r,
                                   inference& out) {
  const std::int64_t batch = a.batch_dims;
  if (index.rank < 1 ||
      (a.coordinates < 0 ? !index.back().is_number() : !may_equal(index.back(), dim(a.coordinates)))) {
    out.why << "the last extent of the positions is to be the number of coordinates of a row";
    return false;
  }
  const std::int64_t parts = a.coordinates < 0 ? index.back().code : a.coordinates;
  if (batch < 0 || batch >= index.rank || parts > x.rank - batch) {
    out.why << parts << " coordinates behind " << batch << " batch axes do not fit the ranks";
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
    out.why << "the reduction " << static_cast<int>(r) << " is none";
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
/// The first operand, of which rows at the coordinates of the second are replaced by, or reduced with, those of the third.
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
/// The first operand, of which elements at positions along an axis are replaced by, or reduced with, those of the third. The
/// positions may be fewer than those of the operand along other axes too.
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
      out.why << "the positions must lie in the shape of the operand but along axis " << axis;
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

// ---- spellings ------------------------------------------------------------------------------------------------------
//
// Of values of programs and nets. Positions are int64 and may be negative: -1 is the last one. One outside of its axis ends
// the run with a value_error that names the operation, and no state is assigned.

/// Rows of x at coordinates (ONNX GatherND): result[b, j] = x[b, index[b, j, 0], index[b, j, 1], ...].
/// Shapes:  x [2, 3, 4], index [5, 2] -> [5, 4]; with {.batch_dims = 1} index [2, 5, 1] -> [2, 5, 4].
/// Types:   any, index int64.   Gradient: rows are added where they came from.
export value gather_nd(const value& x, const value& index, gather_nd_attributes a = {}, const origin& = {});
/// x with rows at coordinates replaced by updates, or reduced with them, in their order (ONNX ScatterND).
/// Shapes:  x [8, 4], index [5, 1], updates [5, 4] -> [8, 4].   Types: any, with a reduction float and integer; index int64.
/// Gradient: of updates that are replaced in turn, as if each stayed; of equal extremes in equal parts; of a product by
///          division, so not at updates of 0.
export value scatter_nd(const value& x, const value& index, const value& updates, scatter_nd_attributes a = {},
                        const origin& = {});
/// Elements of x along an axis, each at a position of its own, as `take_along_axis`; along other axes of known extents the
/// positions may be fewer than those of x (ONNX GatherElements).   Shapes: x [3, V], index [2, 5], axis 1 -> [2, 5].
export value gather_elements(const value& x, const value& index, axis_attributes a = {}, const origin& = {});
/// x with elements at positions along an axis replaced by updates, or reduced with them, in row-major order (ONNX
/// ScatterElements).   Shapes: x [3, V], index and updates [2, 5], axis 1 -> [3, V].   Types and gradient: as `scatter_nd`.
export value scatter_elements(const value& x, const value& index, const value& updates,
                              put_along_axis_attributes a = {}, const origin& = {});

/// Which triangle of the last two axes stays.
struct trilu_attributes {
  bool upper = true;
};
/// x with zeros below, or with {.upper = false} above, the diagonal that lies k places right of the main one.
/// Shapes:  x [..., M, N], k int64 [] or [1].   Types: float, integer, bool.
export value trilu(const value& x, const value& k, trilu_attributes a = {}, const origin& = {});
export value trilu(const value& x, std::int64_t k = 0, trilu_attributes a = {}, const origin& = {});
/// A matrix of the shape of x, of which only the shape is read, with ones k places right of the diagonal.
export value eye_like(const value& x, dtype element, std::int64_t k = 0, const origin& = {});

/// Along a new axis, `on` at the position that index holds and `off` elsewhere; off everywhere where it is outside (ONNX
/// OneHot).   Shapes: index [2, 3], depth int64 [] or [1], values [2] = {off, on}, axis 1 -> [2, depth, 3].   Types: any.
export value one_hot_of(const value& index, const value& depth, const value& values, axis_attributes a = {-1},
                        const origin& = {});
/// Ones at the largest element along an axis, the first of equal ones, and zeros elsewhere.
export value hardmax(const value& x, axis_attributes a = {-1}, const origin& = {});
/// `argmax` and `argmin` that give the last of equal positions.
export value last_argmax(const value& x, argmax_attributes a = {}, const origin& = {});
export value last_argmin(const value& x, argmax_attributes a = {}, const origin& = {});
/// x in reverse order along an axis.
export value reversed(const value& x, axis_attributes a = {}, const origin& = {});

struct reverse_sequence_attributes {
  std::int64_t time_axis = 0, batch_axis = 1;
};
/// The first positions of each sequence of a batch in reverse order, as many as its length; the others stay.
/// Shapes:  x [T, B, ...], lengths int64 [B].   Errors: shape_error where both axes are one; value_error in a run for a length
///          above T.
export value reverse_sequence(const value& x, const value& lengths, reverse_sequence_attributes a = {},
                              const origin& = {});

struct tensor_scatter_attributes {
  std::int64_t axis = -2;
  bool circular = false;
};
/// A cache with the positions of updates from a start on along an axis replaced, for each entry of the first axis (ONNX
/// TensorScatter).   Shapes: cache [B, ..., S, D], updates [B, ..., T, D], starts int64 [B]. Positions beyond S are an error,
/// or begin again with {.circular = true}.
export value tensor_scatter(const value& cache, const value& updates, const value& starts,
                            tensor_scatter_attributes a = {}, const origin& = {});
export value tensor_scatter(const value& cache, const value& updates, tensor_scatter_attributes a = {},
                            const origin& = {});

/// How many elements x has, as int64 [].
export value size_of_value(const value& x, const origin& = {});

}  // namespace lamina
