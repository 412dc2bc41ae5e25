// Operators that gather, scatter and compare elements by position, and operators with data-dependent shapes.
module lamina.onnx:positions.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

value one_number(const value& v) { return v.shape().rank ? value(lamina::reshape(v, lamina::shape{})) : v; }

scatter_reduction reduction_of(node_call& c) {
  const std::string name = c.string("reduction", "none");
  if (name == "none") return scatter_reduction::none;
  if (name == "add") return scatter_reduction::add;
  if (name == "mul") return scatter_reduction::multiply;
  if (name == "max") return scatter_reduction::maximum;
  if (name == "min") return scatter_reduction::minimum;
  c.fail("attribute `reduction` is `", printable(name), "`; expected none, add, mul, max or min");
}
void gather_nd(node_call& c) {
  c.give(0, lamina::gather_nd(c[0], c.positions(1), {.batch_dims = c.integer("batch_dims", 0)}));
}
void gather_elements(node_call& c) {
  c.give(0, lamina::gather_elements(c[0], c.positions(1), {c.axis(c.integer("axis", 0), c.rank(0))}));
}
// Scatters by F(operand, updates), which keeps, adds, multiplies or compares.
template <class F> void scatter(node_call& c, scatter_reduction how, F f) {
  if (how == scatter_reduction::none) return c.give(0, f(c[0], c[2]));
  if (how != scatter_reduction::maximum && how != scatter_reduction::minimum)
    return c.give_like(0, f(c.number(0), c.number(2)));
  c.give_ordered(0, f(c.ordered(0), c.ordered(2)));
}
void scatter_nd(node_call& c) {
  const auto how = reduction_of(c);
  scatter(c, how, [&](const value& x, const value& updates) {
    return lamina::scatter_nd(x, c.positions(1), updates, {.reduction = how});
  });
}
void scatter_elements(node_call& c) {
  const auto how = reduction_of(c);
  const int axis = c.axis(c.integer("axis", 0), c.rank(0));
  scatter(c, how, [&](const value& x, const value& updates) {
    return lamina::scatter_elements(x, c.positions(1), updates, {.axis = axis, .reduction = how});
  });
}
void tensor_scatter(node_call& c) {
  const std::string mode = c.string("mode", "linear");
  if (mode != "linear" && mode != "circular") c.fail("unknown `mode` `", printable(mode), "`");
  const int rank = c.rank(0);
  const int axis = c.axis(c.integer("axis", -2), rank);
  if (axis == 0) c.fail("axis 0 is the batch axis");
  if (c.has(2)) return c.give(0, lamina::tensor_scatter(c[0], c[1], c.positions(2), {axis, mode == "circular"}));
  c.give(0, lamina::tensor_scatter(c[0], c[1], {axis, mode == "circular"}));
}
void reverse_sequence(node_call& c) {
  const int time = c.axis(c.integer("time_axis", 0), c.rank(0)), batch = c.axis(c.integer("batch_axis", 1), c.rank(0));
  c.give(0, lamina::reverse_sequence(c[0], c.positions(1), {time, batch}));
}

void trilu(node_call& c) {
  if (c.rank(0) < 2) c.fail("its operand has rank ", c.rank(0), "; expected 2 or more");
  const bool upper = c.flag("upper", true);
  c.give(0, c.has(1) ? lamina::trilu(c[0], one_number(c.positions(1)), {upper}) : lamina::trilu(c[0], 0, {upper}));
}
void eye_like(node_call& c) {
  if (c.rank(0) != 2) c.fail("its operand has rank ", c.rank(0), "; expected 2");
  c.give(0, lamina::eye_like(c[0], c.element("dtype", c.type(0).element), c.integer("k", 0)));
}
void one_hot(node_call& c) {
  const int axis = c.axis(c.integer("axis", -1), c.rank(0) + 1);
  const auto whole = [&](std::size_t i) { return c.cast_to(c[i], dtype::int64); };  // any numbers are allowed here
  c.give(0, lamina::one_hot_of(whole(0), one_number(whole(1)), c[2], {axis}));
}

template <bool Product> void running(node_call& c) {
  c.give_like(0, lamina::running_along(c.number(0), one_number(c.positions(1)),
                                       {Product, c.flag("exclusive"), c.flag("reverse")}));
}

// k is an attribute before opset 10.
void top_k(node_call& c) {
  const value x = c.ordered(0);
  const int axis = c.axis(c.integer("axis", -1), x.shape().rank);
  const bool largest = c.flag("largest", true);
  const auto give = [&](const auto& found) {
    c.give_ordered(0, found.values);
    c.give(1, found.indices);
  };
  std::optional<std::vector<std::int64_t>> known;
  if (c.opset < 10) known = std::vector{c.integer("k")};
  else known = c.known_integers(1);
  if (!known) return give(lamina::top_k(x, c.positions(1), {.axis = axis, .largest = largest}));
  if (known->size() != 1) c.fail("its k has ", known->size(), " numbers; expected 1");
  if ((*known)[0] < 0) c.fail("its k is ", (*known)[0], "; expected 0 or more");
  give(lamina::top_k(x, {.k = (*known)[0], .axis = axis, .largest = largest}));
}

// ---- data-dependent shapes ------------------------------------------------------------------------------------------

void non_zero(node_call& c) {
  c.give(0, lamina::non_zero(c.rank(0) ? c[0] : value(lamina::reshape(c[0], lamina::shape{1}))));
}
void compress(node_call& c) {
  std::optional<std::int64_t> axis;
  if (c.has_attribute("axis")) axis = c.axis(c.integer("axis"), c.rank(0));
  c.give(0, lamina::compress_first(c[0], c[1], axis));
}
void unique(node_call& c) {
  const value x = c.ordered(0);
  const bool sorted = c.flag("sorted", true);
  const auto give = [&](const auto& found) {
    c.give_ordered(0, found.values);
    c.give(1, found.indices);
    if (c.has_output(2)) c.give(2, lamina::reshape(found.inverse, lamina::shape{dyn}));
    c.give(3, found.counts);
  };
  if (!c.has_attribute("axis")) return give(lamina::unique(x, {.sorted = sorted}));
  give(lamina::unique_slices(x, {c.axis(c.integer("axis"), x.shape().rank)}, {.sorted = sorted}));
}
// The default of max_output_boxes_per_class is 0: no boxes.
void non_max_suppression(node_call& c) {
  const value boxes = c.number(0), scores = c.number(1);
  const bool centers = c.flag("center_point_box");
  const dtype e = boxes.type().element;
  const bool known = (!c.has(2) || c.known(2)) && (!c.has(3) || c.known(3)) && (!c.has(4) || c.known(4));
  constexpr double least = -std::numeric_limits<double>::infinity();
  if (known) {
    const double overlap = c.known_number(3, "iou_threshold", 0);
    if (!(overlap >= 0 && overlap <= 1)) c.fail("`iou_threshold` is ", overlap, "; expected 0 to 1");
    const std::int64_t max = c.has(2) ? c.integers(2, "max_output_boxes_per_class").at(0) : 0;
    return c.give(0, lamina::non_max_suppression(boxes, scores,
                                                 {.iou_threshold = overlap,
                                                  .score_threshold = c.known_number(4, "score_threshold", least),
                                                  .max_per_class = std::max<std::int64_t>(max, 0),
                                                  .centers = centers}));
  }
  const value max = c.has(2) ? c.positions(2) : c.constant(0., dtype::int64);
  const value overlap = c.has(3) ? c.cast_to(c[3], e) : c.constant(0., e);
  const value above = c.has(4) ? c.cast_to(c[4], e) : c.constant(least, e);
  c.give(0, lamina::non_max_suppression(boxes, scores, one_number(max), one_number(overlap), one_number(above),
                                        {.centers = centers}));
}

constexpr converter_entry entries[] = {
    {"Compress", 9, compress},
    {"CumProd", 26, running<true>},
    {"CumSum", 11, running<false>},
    {"EyeLike", 9, eye_like},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"NonMaxSuppression", 10, non_max_suppression},
    {"NonZero", 9, non_zero},
    {"OneHot", 9, one_hot},
    {"ReverseSequence", 10, reverse_sequence},
    {"Scatter", 9, scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND", 11, scatter_nd},
    {"TensorScatter", 24, tensor_scatter},
    {"TopK", 1, top_k},
    {"Trilu", 14, trilu},
    {"Unique", 11, unique},
};

}  // namespace

converter_list position_converters() { return entries; }

}  // namespace lamina::onnx
