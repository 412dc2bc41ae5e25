module lamina:op.computed_shape.impl;
import :core;
import :dtype;
import :op;
import :op.computed_shape;
import :op.index;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

// ---- operands that decide shapes ------------------------------------------------------------------------------------

// Length of an operand that decides a shape; -1, with a reason, if it is no int64 list of a known length up to `max`.
int length_of(const tensor_type& t, std::string_view what, int max, inference& out) {
  if (t.element != dtype::int64) {
    out.refuse(t.element, "int64 extents and positions", "std::int64_t");
    return -1;
  }
  if (t.dims.rank != 1 || !t.dims[0].is_number() || t.dims.at(0) > max) {
    out.why << what << " must be a vector of known length, at most " << max;
    return -1;
  }
  return static_cast<int>(t.dims.at(0));
}
view<const std::int64_t> numbers(const any_tensor& t) { return t.elements<std::int64_t>(); }
// The elements of a value that is known to be a constant.
const any_tensor& constant_of(const value& v) { return v.owner().at(v.id()).constant; }
shape unknown_shape(int rank) {
  shape s;
  for (int i = 0; i < rank; ++i) s.push_back(dyn);
  return s;
}
// Converts a list to extents; false, with a reason, if one is negative.
bool extents_of(const any_tensor& t, shape& to, inference& out) {
  for (std::int64_t n : numbers(t)) {
    if (n < 0) {
      out.why << "an extent of " << n << " is negative";
      return false;
    }
    to.push_back(dim(n));
  }
  return true;
}
// Whether the named axes are valid; false, with a reason, if one is outside the rank or named twice.
bool axes_fit(const axes& a, int rank, inference& out) {
  unsigned bits = 0;
  if (detail::named_axes(a, rank, bits)) return true;
  out.why << "the axes " << a << " are not distinct axes of an operand of rank " << rank;
  return false;
}
int axis_at(const axes& a, int i, int rank) { return detail::normal_axis(a[i], rank); }

// ---- slices ---------------------------------------------------------------------------------------------------------

// Positions first, first + step, ..., `count` of them.
struct run_of_positions {
  std::int64_t first, count, step;
  // The same positions as an ascending slice.
  slice_attributes ascending(int axis) const {
    if (count == 0) return {0, 0, axis, 1};
    const std::int64_t last = first + (count - 1) * step;
    return step > 0 ? slice_attributes{first, last + 1, axis, step} : slice_attributes{last, first + 1, axis, -step};
  }
  bool whole(std::int64_t size) const { return first == 0 && count == size && step == 1; }
};
run_of_positions resolved(std::int64_t start, std::int64_t stop, std::int64_t step, std::int64_t size) {
  const auto clamped = [&](std::int64_t p, std::int64_t low, std::int64_t high) {
    return std::clamp(p < 0 ? p + size : p, low, high);
  };
  if (step > 0) {
    const auto from = clamped(start, 0, size), to = clamped(stop, 0, size);
    return {from, to > from ? (to - from - 1) / step + 1 : 0, step};
  }
  const auto from = clamped(start, -1, size - 1), to = clamped(stop, -1, size - 1);
  // The negation of the lowest step overflows; such a step takes one position.
  const auto back = step == std::numeric_limits<std::int64_t>::min() ? std::numeric_limits<std::int64_t>::max() : -step;
  return {from, from > to ? (from - to - 1) / back + 1 : 0, -back};
}
std::int64_t step_at(view<const std::int64_t> steps, int i) {
  return steps.size() ? steps[static_cast<std::size_t>(i)] : 1;
}

// The positions along each axis of a slice along several axes, from known lists.
std::vector<run_of_positions> runs_of(const axes& along, const shape& s, view<const any_tensor* const> lists) {
  const auto starts = numbers(*lists[0]), stops = numbers(*lists[1]);
  const auto steps = lists.size() > 2 ? numbers(*lists[2]) : view<const std::int64_t>();
  std::vector<run_of_positions> runs;
  for (int i = 0; i < along.count; ++i)
    runs.push_back(resolved(starts[static_cast<std::size_t>(i)], stops[static_cast<std::size_t>(i)], step_at(steps, i),
                            s.at(axis_at(along, i, s.rank))));
  return runs;
}
std::vector<run_of_positions> runs_of(const axes& along, const shape& s, view<const value> lists) {
  std::vector<const any_tensor*> known;
  for (const auto& v : lists) known.push_back(&constant_of(v));
  return runs_of(along, s, view<const any_tensor* const>(known));
}
// Checks operands from `first` on as lists for the axes, as far as known; false, with a reason, if they do not fit.
bool slice_lists(const axes& along, int rank, view<const tensor_type> in, std::size_t first, inference& out) {
  if (in.size() < first + 2 || in.size() > first + 3) {
    out.why << "takes starts, stops and optional steps; got " << static_cast<std::int64_t>(in.size() - first)
            << " lists";
    return false;
  }
  if (!axes_fit(along, rank, out)) return false;
  for (std::size_t i = first; i < in.size(); ++i) {
    const int n = length_of(in[i], "positions", max_rank, out);
    if (n < 0) return false;
    if (n == along.count) continue;
    out.why << "a list of " << n << " positions does not fit " << along.count << " axes";
    return false;
  }
  if (const any_tensor* steps = out.elements_of(first + 2))
    for (std::int64_t step : numbers(*steps))
      if (step == 0) {
        out.why << "steps must not be 0";
        return false;
      }
  return true;
}
// The lists, if all of them are known.
std::vector<const any_tensor*> known_lists(const inference& out, std::size_t first, std::size_t count) {
  std::vector<const any_tensor*> lists;
  for (std::size_t i = first; i < count; ++i)
    if (const any_tensor* t = out.elements_of(i)) lists.push_back(t);
  if (lists.size() != count - first) lists.clear();
  return lists;
}
value reversed(const value& x, int axis) {
  const std::int64_t n = x.shape().at(axis);
  any_tensor positions(tensor_type{dtype::int64, {dim(n)}});
  auto* to = reinterpret_cast<std::int64_t*>(positions.mutable_data());
  for (std::int64_t i = 0; i < n; ++i) to[i] = n - 1 - i;
  return lamina::gather(x, x.owner().constant(std::move(positions)), axis);
}

// ---- borders --------------------------------------------------------------------------------------------------------

struct border {
  int axis;
  std::int64_t before, after;
};
std::vector<border> borders_of(const axes& along, int rank, const any_tensor& t) {
  const auto all = numbers(t);
  std::vector<border> borders;
  for (int i = 0; i < along.count; ++i)
    borders.push_back(
        {axis_at(along, i, rank), all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i + along.count)]});
  return borders;
}
// Adds borders to a shape; false, with a reason, if the result is no shape.
bool add_borders(shape& s, const axes& along, const any_tensor& t, inference& out) {
  for (const auto& b : borders_of(along, s.rank, t)) {
    constexpr std::int64_t max = std::int64_t(1) << 62;  // numbers below it can be negated
    std::int64_t n = 0;
    const bool fits = std::max(b.before, b.after) < max && std::min(b.before, b.after) > -max &&
                      !__builtin_add_overflow(b.before, b.after, &n);
    if (fits && s[b.axis].is_number() && !__builtin_add_overflow(s.at(b.axis), n, &n) && n >= 0) s[b.axis] = dim(n);
    else if (fits && !s[b.axis].is_number()) s[b.axis] = n ? dim(dyn) : s[b.axis];
    else {
      out.why << "an axis of " << s[b.axis] << " cannot have borders of " << b.before << " and " << b.after;
      return false;
    }
  }
  return true;
}
bool border_lists(const axes& along, int rank, const tensor_type& list, inference& out) {
  if (!axes_fit(along, rank, out)) return false;
  const int n = length_of(list, "borders", 2 * max_rank, out);
  if (n < 0) return false;
  if (n == 2 * along.count) return true;
  out.why << n << " borders for " << along.count << " axes; expected two each";
  return false;
}
// Pads where a border is positive, then crops the negative ones, which may remove padding again.
value with_borders(value x, const std::vector<border>& borders, double number) {
  for (const auto& b : borders) {
    if (b.before > 0 || b.after > 0)
      x = lamina::pad(x, {b.axis, std::max<std::int64_t>(b.before, 0), std::max<std::int64_t>(b.after, 0), number});
    const std::int64_t n = x.shape().at(b.axis);
    if (b.before < 0 || b.after < 0)
      x = lamina::slice(x, {std::max<std::int64_t>(-b.before, 0), n + std::min<std::int64_t>(b.after, 0), b.axis, 1});
  }
  return x;
}

}  // namespace

// ---- reshape_to -----------------------------------------------------------------------------------------------------

void reshape_to::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const int rank = length_of(in[1], "extents", max_rank, out);
  if (rank < 0) return;
  const any_tensor* known = out.elements_of(1);
  if (!known) return out.result(in[0].element, unknown_shape(rank));
  shape to;
  bool kept = false;  // some extent is still unknown
  for (std::int64_t n : numbers(*known)) {
    const int i = to.rank;
    if (n < -1 || (n == 0 && a.keep_zero && i >= in[0].dims.rank)) {
      out.why << (n ? "an extent of " : "the operand has no axis to copy for extent ") << n
              << (n ? " is negative" : "");
      return;
    }
    to.push_back(n == 0 && a.keep_zero ? in[0].dims[i] : n < 0 ? dim(dyn) : dim(n));
    kept = kept || (n == 0 && a.keep_zero && !to.back().is_number());
  }
  if (std::count(numbers(*known).begin(), numbers(*known).end(), -1) > 1) {
    out.why << "only one extent can be inferred";
    return;
  }
  if (kept) out.result(in[0].element, to);
  else detail::infer_reshape(in[0].dims, to, in[0].element, out);
}
value reshape_to::bind(const attributes& a, view<const value> in) {
  shape to;
  for (std::int64_t n : numbers(constant_of(in[1])))
    to.push_back(n == 0 && a.keep_zero ? in[0].shape()[to.rank] : n < 0 ? dim(dyn) : dim(n));
  return lamina::reshape(in[0], to);
}

// ---- expand_to ------------------------------------------------------------------------------------------------------

void expand_to::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const int rank = length_of(in[1], "extents", max_rank, out);
  if (rank < 0) return;
  shape to, all;
  const any_tensor* known = out.elements_of(1);
  if (!known) return out.result(in[0].element, unknown_shape(std::max(rank, in[0].dims.rank)));
  if (!extents_of(*known, to, out)) return;
  if (!broadcast(in[0].dims, to, all)) out.why << "the operand does not broadcast with " << to;
  else out.result(in[0].element, all);
}
value expand_to::bind(const attributes&, view<const value> in) {
  shape to, all;
  for (std::int64_t n : numbers(constant_of(in[1]))) to.push_back(dim(n));
  broadcast(in[0].shape(), to, all);
  return in[0].shape() == all ? in[0] : value(lamina::tile_to(in[0], all));
}

// ---- slice_at -------------------------------------------------------------------------------------------------------

void slice_at::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  shape s = in[0].dims;
  if (!slice_lists(a.axes, s.rank, in, 1, out)) return;
  const auto lists = known_lists(out, 1, in.size());
  if (in[0].dims.is_static() && !lists.empty()) {
    const auto runs = runs_of(a.axes, in[0].dims, view<const any_tensor* const>(lists));
    for (int i = 0; i < a.axes.count; ++i) s[axis_at(a.axes, i, s.rank)] = dim(runs[static_cast<std::size_t>(i)].count);
  } else
    for (int i = 0; i < a.axes.count; ++i) s[axis_at(a.axes, i, s.rank)] = dyn;
  out.result(in[0].element, s);
}
value slice_at::bind(const attributes& a, view<const value> in) {
  const shape whole = in[0].shape();
  const auto runs = runs_of(a.axes, whole, view<const value>(in.data() + 1, in.size() - 1));
  value x = in[0];
  for (int i = 0; i < a.axes.count; ++i) {
    const int axis = axis_at(a.axes, i, whole.rank);
    const auto& run = runs[static_cast<std::size_t>(i)];
    if (run.whole(whole.at(axis))) continue;
    x = lamina::slice(x, run.ascending(axis));
    if (run.step < 0 && run.count > 1) x = reversed(x, axis);
  }
  return x;
}

void slice_at_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in.size() < 2) {
    out.why << "takes at least two operands";
    return;
  }
  if (in[0].dims.rank != in[1].dims.rank) {
    out.why << "the ranks differ";
    return;
  }
  if (!slice_lists(a.axes, in[1].dims.rank, in, 2, out)) return;
  const auto lists = known_lists(out, 2, in.size());
  shape part = in[1].dims;
  if (!lists.empty() && part.is_static()) {
    const auto runs = runs_of(a.axes, in[1].dims, view<const any_tensor* const>(lists));
    for (int i = 0; i < a.axes.count; ++i)
      part[axis_at(a.axes, i, part.rank)] = dim(runs[static_cast<std::size_t>(i)].count);
    if (!fits(part, in[0].dims)) {
      out.why << "the first operand must be " << part;
      return;
    }
  }
  out.result(in[0].element, in[1].dims);
}
value slice_at_grad::bind(const attributes& a, view<const value> in) {
  const shape whole = in[1].shape();
  const auto runs = runs_of(a.axes, whole, view<const value>(in.data() + 2, in.size() - 2));
  // The operand after the slices of the previous axes; only the shapes are read.
  std::vector<value> before{in[1]};
  for (int i = 0; i < a.axes.count; ++i)
    before.push_back(
        lamina::slice(before.back(), runs[static_cast<std::size_t>(i)].ascending(axis_at(a.axes, i, whole.rank))));
  value g = in[0];
  for (int i = a.axes.count; i-- > 0;) {
    const int axis = axis_at(a.axes, i, whole.rank);
    const auto& run = runs[static_cast<std::size_t>(i)];
    if (run.whole(whole.at(axis))) continue;
    if (run.step < 0 && run.count > 1) g = reversed(g, axis);
    g = apply<op::slice_grad>(run.ascending(axis), g, before[static_cast<std::size_t>(i)]);
  }
  return g;
}

// ---- tile_by --------------------------------------------------------------------------------------------------------

void tile_by::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const int n = length_of(in[1], "repeats", max_rank, out);
  if (n < 0) return;
  if (n != in[0].dims.rank) {
    out.why << n << " repeats do not fit " << in[0].dims.rank << " axes";
    return;
  }
  shape repeats;
  const any_tensor* known = out.elements_of(1);
  if (!known) return out.result(in[0].element, unknown_shape(n));
  if (extents_of(*known, repeats, out)) op::tile::infer({repeats}, {in.data(), 1}, out);
}
value tile_by::bind(const attributes&, view<const value> in) {
  shape repeats;
  for (std::int64_t n : numbers(constant_of(in[1]))) repeats.push_back(dim(n));
  return lamina::tile(in[0], repeats);
}

// ---- pad_by ---------------------------------------------------------------------------------------------------------

void pad_by::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  shape s = in[0].dims;
  if (!border_lists(a.axes, s.rank, in[1], out)) return;
  // The number must be representable in the element type, as for `pad`.
  if (s.rank > 0) {
    op::pad::infer({0, 0, 0, a.value}, {in.data(), 1}, out);
    if (!out.why.empty()) return;
    out.count = 0;
  }
  if (const any_tensor* known = out.elements_of(1)) {
    if (!add_borders(s, a.axes, *known, out)) return;
  } else
    for (int i = 0; i < a.axes.count; ++i) s[axis_at(a.axes, i, s.rank)] = dyn;
  out.result(in[0].element, s);
}
value pad_by::bind(const attributes& a, view<const value> in) {
  return with_borders(in[0], borders_of(a.axes, in[0].shape().rank, constant_of(in[1])), a.value);
}

void pad_by_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  shape s = in[1].dims;
  if (in[0].dims.rank != s.rank) {
    out.why << "the ranks differ";
    return;
  }
  if (!border_lists(a.axes, s.rank, in[2], out)) return;
  if (const any_tensor* known = out.elements_of(2)) {
    if (!add_borders(s, a.axes, *known, out)) return;
    if (!fits(s, in[0].dims)) {
      out.why << "the first operand must be " << s;
      return;
    }
  }
  out.result(in[0].element, in[1].dims);
}
value pad_by_grad::bind(const attributes& a, view<const value> in) {
  auto borders = borders_of(a.axes, in[0].shape().rank, constant_of(in[2]));
  for (auto& b : borders) b.before = -b.before, b.after = -b.after;
  return with_borders(in[0], borders, 0);
}

// ---- arange and full ------------------------------------------------------------------------------------------------

namespace {
constexpr std::int64_t max_range = std::int64_t(1) << 31;

// Number of elements of a range; -1, with a reason, if the range is invalid.
template <class T> std::int64_t range_count(T start, T stop, T step, inference& out) {
  if (step == 0 || !(step == step)) {
    out.why << "step must be a nonzero number, not " << static_cast<double>(step);
    return -1;
  }
  const double n = std::ceil((static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step));
  if (!(n == n)) {
    out.why << "start or stop is not a number";
    return -1;
  }
  if (n <= static_cast<double>(max_range))
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::max(n, 0.0)));
  out.why << "the range has more than 2^31 elements";
  return -1;
}
// Calls f with start, stop and step of a range, in their type.
template <class F> auto with_range(view<const any_tensor* const> of, F f) {
  return with_type(of[0]->type().element, [&]<class T>() {
    if constexpr (std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
                  std::same_as<T, std::int64_t>)
      return f(of[0]->elements<T>()[0], of[1]->elements<T>()[0], of[2]->elements<T>()[0]);
    else return f(0.0, 0.0, 1.0);  // rejected by `infer`
  });
}
bool is_one_number(const tensor_type& t) { return t.dims.rank == 0 || (t.dims.rank == 1 && may_equal(t.dims[0], 1)); }
}  // namespace

void arange::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const dtype e = in[0].element;
  if (e != dtype::float32 && e != dtype::float64 && e != dtype::int32 && e != dtype::int64) {
    out.refuse(e, "float32, float64, int32 or int64", "float");
    return;
  }
  if (!detail::same_elements(in, out)) return;
  for (const auto& t : in)
    if (!is_one_number(t)) {
      out.why << "start, stop and step must be one number each";
      return;
    }
  const auto known = known_lists(out, 0, 3);
  if (known.empty()) return out.result(e, shape{dyn});
  const std::int64_t n = with_range(view<const any_tensor* const>(known), [&]<class T>(T start, T stop, T step) {
    return range_count(start, stop, step, out);
  });
  if (n >= 0) out.result(e, shape{dim(n)});
}
value arange::bind(const attributes&, view<const value> in) {
  const any_tensor* known[] = {&constant_of(in[0]), &constant_of(in[1]), &constant_of(in[2])};
  return with_range(known, [&]<class T>(T start, T stop, T step) {
    inference unused;
    const std::int64_t n = range_count(start, stop, step, unused);
    any_tensor all(tensor_type{in[0].type().element, {dim(n)}});
    T* to = reinterpret_cast<T*>(all.mutable_data());
    for (std::int64_t i = 0; i < n; ++i)
      if constexpr (std::is_integral_v<T>)  // wraps around where stop - start does
        to[i] = static_cast<T>(static_cast<std::uint64_t>(start) +
                               static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
      else to[i] = start + static_cast<T>(i) * step;
    return in[0].owner().constant(std::move(all));
  });
}

void full::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const int rank = length_of(in[0], "extents", max_rank, out);
  if (rank < 0) return;
  if (!is_one_number(in[1])) {
    out.why << "the second operand must be one number";
    return;
  }
  shape to;
  if (const any_tensor* known = out.elements_of(0)) {
    if (!extents_of(*known, to, out)) return;
  } else to = unknown_shape(rank);
  out.result(in[1].element, to);
}
value full::bind(const attributes&, view<const value> in) {
  shape to;
  for (std::int64_t n : numbers(constant_of(in[0]))) to.push_back(dim(n));
  const value one = lamina::reshape(in[1], shape{});
  return to.rank ? value(lamina::tile_to(one, to)) : one;
}

}  // namespace lamina::op
