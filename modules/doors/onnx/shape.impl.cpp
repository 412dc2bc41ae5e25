// Operators that rearrange elements, and operators that compute shapes.
module lamina.onnx:shape.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();

void constant(node_call& c) {
  if (auto t = c.tensor("value")) return c.give(0, *std::move(t));
  if (auto t = c.sparse_tensor("sparse_value")) return c.give(0, *std::move(t));
  const auto give = [&]<class T>(const std::vector<T>& v, const lamina::shape& s) {
    any_tensor t({dtype_of<T>, s});
    if (!v.empty()) std::memcpy(t.mutable_data(), v.data(), v.size() * sizeof(T));
    c.give(0, std::move(t));
  };
  const auto floats = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  const auto count = [](const auto& v) { return lamina::shape{static_cast<std::int64_t>(v.size())}; };
  if (c.has_attribute("value_int")) return give(std::vector<std::int64_t>{c.integer("value_int")}, {});
  if (c.has_attribute("value_float")) return give(floats({c.real("value_float", 0)}), {});
  if (c.has_attribute("value_ints"))
    return give(c.node_call::integers("value_ints"), count(c.node_call::integers("value_ints")));
  if (c.has_attribute("value_floats")) return give(floats(c.reals("value_floats")), count(c.reals("value_floats")));
  std::vector<std::string> texts;
  if (c.has_attribute("value_strings")) texts = c.strings("value_strings");
  else if (c.has_attribute("value_string")) texts.push_back(c.string("value_string", ""));
  else c.fail("it has no value");
  const bool is_single = !c.has_attribute("value_strings");
  c.give(0, any_tensor::of_strings(is_single ? lamina::shape{} : count(texts), view<const std::string>(texts)));
}

void expect_tensor(node_call& c) {
  if (!c.type(0).is_tensor()) c.fail("expected a tensor; got ", c.type(0));
}
void shape_of(node_call& c) {
  expect_tensor(c);
  const lamina::shape& s = c.dims(0);
  const auto at = [&](std::int64_t a) { return std::clamp<std::int64_t>(a < 0 ? a + s.rank : a, 0, s.rank); };
  const auto from = at(c.integer("start", 0)), to = std::max(from, at(c.integer("end", far)));
  std::vector<dim> all;
  for (auto i = from; i < to; ++i) all.push_back(s[static_cast<int>(i)]);
  if (std::all_of(all.begin(), all.end(), [](dim d) { return d.is_number(); })) {
    any_tensor t({dtype::int64, {static_cast<std::int64_t>(all.size())}});
    for (std::size_t i = 0; i < all.size(); ++i) std::memcpy(t.mutable_data() + i * 8, &all[i].code, 8);
    return c.give(0, std::move(t));
  }
  const value whole = lamina::shape_of(c[0]);
  c.give(0, from == 0 && to == s.rank ? whole : value(lamina::slice(whole, {.start = from, .stop = to})));
  c.results[0].extents = std::move(all);
}
void size(node_call& c) {
  expect_tensor(c);
  const value x = c[0];
  if (x.shape().is_static()) {
    any_tensor t({dtype::int64, {}});
    const std::int64_t n = x.shape().size();
    std::memcpy(t.mutable_data(), &n, 8);
    return c.give(0, std::move(t));
  }
  c.give(0, lamina::reduce_prod(lamina::shape_of(x)));
}

// Target extents of a reshape, if they can be determined without the operand's elements: numbers, names, and at most
// one inferred extent.
std::optional<lamina::shape> target_of(node_call& c, const lamina::shape& x) {
  const auto numbers = c.known_integers(1);
  const auto& known_extents = c.extents(1);
  if (!numbers && !known_extents) return {};
  const std::size_t rank = numbers ? numbers->size() : known_extents->size();
  if (rank > static_cast<std::size_t>(max_rank))
    c.unsupported("its result has rank ", rank, "; the limit is ", max_rank);
  const bool keeps = c.opset < 14 || !c.flag("allowzero");
  lamina::shape made;
  int open = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const int k = static_cast<int>(i);
    const std::int64_t n = numbers ? (*numbers)[i] : (*known_extents)[i].is_number() ? (*known_extents)[i].code : 1;
    if (n < -1) c.fail("the extent ", n, " in its target shape is below -1");
    dim d = !numbers ? (*known_extents)[i] : n < 0 ? dim(dyn) : dim(n);
    if (n == 0 && keeps) {
      if (k >= x.rank) c.fail("its target shape keeps extent ", k, ", but the operand is ", x);
      d = x[k];
    }
    if (!d.is_number() && !d.is_name()) ++open;
    made.push_back(d);
  }
  return open <= 1 ? std::optional(made) : std::nullopt;
}

void reshape(node_call& c) {
  const value x = c[0];
  if (c.opset < 5) c.unsupported("opsets before 5 are not supported");
  if (const auto to = target_of(c, x.shape())) return c.give(0, lamina::reshape(x, *to));
  c.give(0, lamina::reshape_to(x, c[1], {.keep_zero = !c.flag("allowzero")}));
}
void flatten(node_call& c) {
  const int rank = c.rank(0);
  std::int64_t a = c.integer("axis", 1);
  if (a < -rank || a > rank) c.fail("axis ", a, " is outside of rank ", rank);
  if (a < 0) a += rank;
  const value x = c[0];
  if (a == 0 || x.shape().is_static()) {
    const std::int64_t rows = a == 0 ? 1 : x.shape().size(0, static_cast<int>(a));
    return c.give(0, lamina::reshape(x, lamina::shape{rows, a == 0 || rows == 0 ? dim(dyn) : dim(dyn)}));
  }
  if (a == rank) return c.give(0, lamina::reshape(x, lamina::shape{dyn, 1}));
  c.give(0, lamina::as_matrix(x, a));
}

void transpose(node_call& c) {
  const int rank = c.rank(0);
  auto order = c.node_call::integers("perm");
  if (order.empty())
    for (int i = rank; i-- > 0;) order.push_back(i);
  if (order.size() != static_cast<std::size_t>(rank))
    c.fail("`perm` has ", order.size(), " axes, but the rank is ", rank);
  if (rank == 0) return c.give(0, c[0]);
  c.give(0, lamina::permute(c[0], c.axes_of(order, rank)));
}

// Axes are an attribute before opset `since`, an operand since.
std::vector<std::int64_t> axes_operand(node_call& c, std::int64_t since) {
  if (c.opset < since) return c.node_call::integers("axes");
  return c.has(1) ? c.integers(1, "axes") : std::vector<std::int64_t>();
}
// Converts an int64 vector of axes to a 0/1 mask over all axes (int64).
value marked_axes(node_call& c, const value& axes, int rank) {
  std::vector<std::int64_t> positions;
  for (int i = 0; i < rank; ++i) positions.push_back(i);
  const value all = c.constant(positions), column = lamina::unsqueeze(axes, lamina::axes(1));
  const value named = lamina::where(column < 0, column + rank, column) == all;
  return lamina::reduce_max(c.cast_to(named, dtype::int64), {.axes = lamina::axes(0)});
}
// Extents of x that are not marked; they sort first in the order of the marks.
value kept_extents(node_call& c, const value& x, const value& marked, int kept) {
  const value order = lamina::argsort(marked, {.axis = 0});
  return lamina::gather(c.extents_of(x), lamina::slice(order, {.start = 0, .stop = kept}), 0);
}
// The length of operand 1, a vector of computed axes.
int computed_axes(node_call& c) {
  const lamina::shape& s = c.dims(1);
  if (s.rank != 1 || !s[0].is_number()) c.unsupported("the number of its axes is not known");
  return static_cast<int>(std::min<std::int64_t>(s.at(0), max_rank));
}
void squeeze(node_call& c) {
  const value x = c[0];
  const int rank = x.shape().rank;
  if (c.opset >= 13 && c.has(1) && !c.known_integers(1)) {
    const int left = rank - computed_axes(c);
    if (left < 0) c.fail("it removes more axes than there are");
    return c.give(0,
                  lamina::reshape_to(x, kept_extents(c, x, marked_axes(c, c.cast_to(c[1], dtype::int64), rank), left)));
  }
  auto a = axes_operand(c, 13);
  if (a.empty() && !(c.opset >= 13 && c.has(1)))
    for (int i = 0; i < rank; ++i) {
      if (x.shape()[i] == dim(1)) a.push_back(i);  // a symbolic extent stays
      else if (x.shape()[i] == dim(dyn))
        c.unsupported("it removes all axes of extent 1, but some extents of ", x.shape(), " are not known");
    }
  c.give(0, a.empty() ? x : value(lamina::squeeze(x, c.axes_of(a, rank))));
}
void unsqueeze(node_call& c) {
  const value x = c[0];
  if (c.opset >= 13 && !c.known_integers(1)) {
    const int rank = x.shape().rank + computed_axes(c);
    if (rank > max_rank) c.unsupported("its result has rank ", rank, "; the limit is ", max_rank);
    const value added = marked_axes(c, c.cast_to(c[1], dtype::int64), rank);
    // Extents of x at the old axes, 1 at the added ones.
    const value position = lamina::cumsum(1 - added, {.axis = 0, .exclusive = true});
    std::vector<value> extended{c.extents_of(x), c.constant(std::vector<std::int64_t>{1})};
    const value extents = lamina::gather(lamina::concat(view<const value>(extended), 0), position, 0);
    return c.give(0, lamina::reshape_to(x, lamina::where(added == 1, 1, extents)));
  }
  auto a = axes_operand(c, 13);
  const int rank = x.shape().rank + static_cast<int>(a.size());
  if (rank > max_rank) c.unsupported("its result has rank ", rank, "; the limit is ", max_rank);
  auto at = c.axes_of(a, rank);
  std::sort(at.values, at.values + at.count);
  c.give(0, a.empty() ? x : value(lamina::unsqueeze(x, at)));
}

void concat(node_call& c) {
  std::vector<value> all;
  for (std::size_t i = 0; i < c.size(); ++i) all.push_back(c[i]);
  if (all.empty()) c.fail("it has no operands");
  c.give(0, all.size() == 1 ? all[0] : lamina::concat(view<const value>(all), c.axis(c.integer("axis"), c.rank(0))));
}

// Split with computed sizes.
void split_at(node_call& c, const value& operand, int axis) {
  const value sizes = c.cast_to(c[1], dtype::int64), ends = lamina::cumsum(sizes, {.axis = 0});
  // As many positions as the sizes say, or an error, also if a size is negative.
  const auto all = lamina::axes(0);
  const value negative = lamina::reduce_min(sizes, {.axes = all, .keepdim = true}) < 0,
              whole = c.extent_of(operand, axis);
  std::vector<value> extents;
  for (int i = 0; i < operand.shape().rank; ++i)
    extents.push_back(
        i == axis ? lamina::where(negative, whole + 1, lamina::reduce_sum(sizes, {.axes = all, .keepdim = true}))
                  : c.extent_of(operand, i));
  const value x =
      lamina::reshape_like(lamina::reshape_to(operand, lamina::concat(view<const value>(extents), 0)), operand);
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const value end = lamina::slice(ends, {.start = at, .stop = at + 1}),
                size = lamina::slice(sizes, {.start = at, .stop = at + 1});
    c.give(i, lamina::slice_at(x, end - size, end, lamina::axes(axis)));
  }
}
void split(node_call& c) {
  const value x = c[0];
  const int axis = c.axis(c.integer("axis", 0), x.shape().rank);
  std::vector<std::int64_t> sizes = c.opset < 13 ? c.node_call::integers("split") : std::vector<std::int64_t>();
  if (c.opset >= 13 && c.has(1)) {
    if (const auto known = c.known_integers(1)) sizes = *known;
    else return split_at(c, x, axis);
  }
  const auto parts = static_cast<std::int64_t>(c.output_count());
  if (sizes.empty()) {
    if (parts == 1) return c.give(0, x);
    if (!x.shape()[axis].is_number()) {
      // Equal parts of an extent that is known when planning.
      const value each = (c.extent_of(x, axis) + (parts - 1)) / parts;
      for (std::int64_t i = 0; i < parts; ++i)
        c.give(static_cast<std::size_t>(i), lamina::slice_at(x, each * i, each * (i + 1), lamina::axes(axis)));
      return;
    }
    const std::int64_t whole = x.shape().at(axis), each = (whole + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<std::int64_t>(whole - i * each, 0, each));
  }
  if (sizes.size() != c.output_count()) c.fail("it has ", sizes.size(), " sizes and ", c.output_count(), " results");
  std::int64_t sum = 0;
  for (auto n : sizes)
    if (n < 0 || __builtin_add_overflow(sum, n, &sum)) c.fail("split size ", n, " is negative");
  if (x.shape()[axis].is_number() && sum != x.shape().at(axis))
    c.fail("its sizes sum to ", sum, ", but extent ", axis, " of the operand is ", x.shape().at(axis));
  if (!x.shape()[axis].is_number()) {  // compared with the sum of the sizes when it is known
    const auto made = lamina::split(x, view<const std::int64_t>(sizes), axis);
    for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
    return;
  }
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes.size() == 1) c.give(i, x);
    else c.give(i, lamina::slice(x, {.start = at, .stop = at + sizes[i], .axis = axis}));
    at += sizes[i];
  }
}

// Slice with computed axes, expanded to all axes; axes that are not named are kept whole.
void slice_computed_axes(node_call& c, const value& x) {
  const int rank = x.shape().rank;
  std::vector<std::int64_t> positions;
  for (int i = 0; i < rank; ++i) positions.push_back(i);
  const value axes = lamina::unsqueeze(c.cast_to(c[3], dtype::int64), lamina::axes(1));
  const value named = lamina::where(axes < 0, axes + rank, axes) == c.constant(positions);
  const value any = lamina::reduce_max(c.cast_to(named, dtype::int64), {.axes = lamina::axes(0)}) == 1;
  const auto spread = [&](const value& list, std::int64_t otherwise) {
    const value column = lamina::unsqueeze(c.cast_to(list, dtype::int64), lamina::axes(1));
    return value(
        lamina::where(any, lamina::reduce_sum(lamina::where(named, column, 0), {.axes = lamina::axes(0)}), otherwise));
  };
  lamina::axes all;
  for (int i = 0; i < rank; ++i) all.values[all.count++] = i;
  const value starts = spread(c[1], 0), stops = spread(c[2], far);
  c.give(0, lamina::slice_at(x, starts, stops, all, c.has(4) ? spread(c[4], 1) : value(starts * 0 + 1)));
}
using numbers = std::optional<std::vector<std::int64_t>>;
// Slices axis by axis, if positions are known and none depends on an unknown extent; otherwise empty.
value sliced_by_axis(node_call& c, const value& x, const lamina::axes& along, const numbers& starts,
                     const numbers& stops, const numbers& steps) {
  const auto count = static_cast<std::size_t>(along.count);
  if (starts->size() != count || stops->size() != count || (steps && steps->size() != count))
    c.fail("it has ", starts->size(), " starts, ", stops->size(), " stops and ", count, " axes");
  value made = x;
  for (std::size_t i = 0; i < count; ++i) {
    const int a = along[static_cast<int>(i)];
    std::int64_t start = (*starts)[i], stop = (*stops)[i];
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step <= 0 || !x.shape()[a].is_number()) return {};
    const auto n = x.shape().at(a);
    const auto at = [&](std::int64_t p) { return std::clamp<std::int64_t>(p < 0 ? p + n : p, 0, n); };
    start = at(start), stop = std::max(start, at(stop));
    if (start != 0 || stop != n || step != 1)
      made = lamina::slice(
          made, {.start = start, .stop = stop, .axis = a, .step = std::min(step, std::max<std::int64_t>(n, 1))});
  }
  return made;
}
// Default axes: the first ones, as many as there are starts.
std::vector<std::int64_t> first_axes(node_call& c, const numbers& starts, int rank) {
  const auto n = starts
                     ? starts->size()
                     : static_cast<std::size_t>(c.dims(1).rank == 1 && c.dims(1)[0].is_number() ? c.dims(1).at(0) : 0);
  if (n > static_cast<std::size_t>(rank)) c.fail("it has ", n, " starts, but the rank is ", rank);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<std::int64_t>(i));
  return all;
}
// Starts, stops, axes and steps are attributes before opset 10, operands since.
void slice(node_call& c) {
  const value x = c[0];
  const int rank = x.shape().rank;
  numbers starts, stops, axes, steps;
  if (c.opset < 10) {
    starts = c.node_call::integers("starts"), stops = c.node_call::integers("ends");
    if (c.has_attribute("axes")) axes = c.node_call::integers("axes");
  } else {
    starts = c.known_integers(1), stops = c.known_integers(2);
    if (c.has(3) && !c.known_integers(3)) return slice_computed_axes(c, x);
    if (c.has(3)) axes = c.known_integers(3);
    if (c.has(4)) steps = c.known_integers(4);
  }
  if (!axes) axes = first_axes(c, starts, rank);
  const lamina::axes along = c.axes_of(*axes, rank);
  if (starts && stops && (steps || !c.has(4) || c.opset < 10))
    if (const value made = sliced_by_axis(c, x, along, starts, stops, steps); !made.empty()) return c.give(0, made);
  const auto operand = [&](const auto& list, std::size_t i) {
    return list ? c.constant(*list) : c.cast_to(c[i], dtype::int64);
  };
  const value from = operand(starts, 1), to = operand(stops, 2);
  if (c.has(4) && c.opset >= 10) c.give(0, lamina::slice_at(x, from, to, along, operand(steps, 4)));
  else c.give(0, lamina::slice_at(x, from, to, along));
}

// Operand i as an int64 vector: a constant if known.
value extents_operand(node_call& c, std::size_t i) {
  if (const auto n = c.known_integers(i)) return c.constant(*n);
  return c.cast_to(c[i], dtype::int64);
}
void expand(node_call& c) { c.give(0, lamina::expand(c[0], extents_operand(c, 1))); }
void tile(node_call& c) { c.give(0, lamina::tile_by(c[0], extents_operand(c, 1))); }
void constant_of_shape(node_call& c) {
  const auto t = c.tensor("value");
  const value number = t ? value(lamina::reshape(c.constant(*t), lamina::shape{})) : c.constant(0.0, dtype::float32);
  c.give(0, lamina::full(extents_operand(c, 0), number));
}
void range(node_call& c) {
  const auto scalar = [&](std::size_t i) {
    const value x = lamina::reshape(c.number(i), lamina::shape{});
    const dtype e = x.type().element;
    return is_integer(e) && e != dtype::int32 ? c.cast_to(x, dtype::int64) : x;
  };
  c.give_like(0, lamina::arange(scalar(0), scalar(1), scalar(2)));
}

constexpr converter_entry entries[] = {
    {"Concat", 4, concat},   {"Constant", 1, constant},   {"ConstantOfShape", 9, constant_of_shape},
    {"Expand", 8, expand},   {"Flatten", 1, flatten},     {"Range", 11, range},
    {"Reshape", 5, reshape}, {"Shape", 1, shape_of},      {"Size", 1, size},
    {"Slice", 1, slice},     {"Split", 2, split},         {"Squeeze", 1, squeeze},
    {"Tile", 6, tile},       {"Transpose", 1, transpose}, {"Unsqueeze", 1, unsqueeze},
};

}  // namespace

converter_list shape_converters() { return entries; }

}  // namespace lamina::onnx
