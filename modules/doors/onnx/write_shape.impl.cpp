// Writes operations that move elements or address them by position.
module lamina.onnx:write_shape.impl;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

written_numbers numbers_of(const shape& s) {
  written_numbers all;
  for (int i = 0; i < s.rank; ++i) all.push_back(s.at(i));
  return all;
}
written_numbers numbers_of(const axes& a) { return written_numbers(a.values, a.values + a.count); }
attribute_list along(std::int64_t axis) { return {{"axis", axis}}; }

// ---- shapes ---------------------------------------------------------------------------------------------------------

void reshape(written_call& c) { c.give(c.reshape(c[0], c.dims(0), c.extents_of("to"))); }
void reshape_like(written_call& c) { c.give(c.add("Reshape", {c[0], c.shape_of(1)})); }
void flatten(written_call& c) {
  shape to = c.result().dims;
  if (!to.is_static()) {
    // Leading extents are those of the operand if they are not numbers.
    for (int i = 0; i + 1 < to.rank; ++i)
      if (!to[i].is_number()) to[i] = dyn;
    if (!to[to.rank - 1].is_number()) to[to.rank - 1] = dyn;
    written_numbers all;
    for (int i = 0; i < to.rank; ++i)
      all.push_back(i + 1 == to.rank ? (to[i].is_number() ? to.at(i) : -1) : to[i].is_number() ? to.at(i) : 0);
    return c.give(c.add("Reshape", {c[0], c.longs(all)}));
  }
  c.give(c.reshape_to_result(c[0], 0));
}
void as_matrix(written_call& c) { c.give(c.add("Flatten", {c[0]}, along(c.integer("leading")))); }
void unsqueeze(written_call& c) { c.give(c.add("Unsqueeze", {c[0], c.longs(numbers_of(c.list("axes")))})); }
void squeeze(written_call& c) {
  written_numbers all = numbers_of(c.list("axes"));
  if (all.empty())
    for (int i = 0; i < c.dims(0).rank; ++i)
      if (c.dims(0)[i] == dim(1)) all.push_back(i);
  if (all.empty()) c.give(c.add("Identity", {c[0]}));
  else c.give(c.add("Squeeze", {c[0], c.longs(all)}));
}
void permute(written_call& c) {
  written_numbers order = numbers_of(c.list("order"));
  for (auto& a : order) a = written_call::normal(a, c.dims(0).rank);
  c.give(c.add("Transpose", {c[0]}, {{"perm", order}}));
}
void shape_of(written_call& c) { c.give(c.add("Shape", {c[0]})); }
void reshape_to(written_call& c) {
  attribute_list a;
  if (!c.flag("keep_zero")) a.push_back({"allowzero", std::int64_t(1)});
  c.give(c.add("Reshape", {c[0], c[1]}, std::move(a)));
}
void group_heads(written_call& c) {
  const int rank = c.dims(0).rank;
  const shape& to = c.result().dims;
  if (to.is_static()) return c.give(c.reshape_to_result(c[0], 0));
  if (!to[rank - 3].is_number() || !to[rank - 2].is_number()) c.unsupported("the numbers of heads are not known");
  c.give(c.add("Reshape", {c[0], c.concat({c.extents(0, 0, rank - 3), c.longs({to.at(rank - 3), to.at(rank - 2)}),
                                           c.extents(0, rank - 2, rank)})}));
}
void dot_result(written_call& c) {
  const int count = static_cast<int>(c.integer("count"));
  const int left = c.dims(1).rank - count;
  if (c.result().dims.is_static()) return c.give(c.add("Reshape", {c[0], c.longs(numbers_of(c.result().dims))}));
  c.give(c.add("Reshape", {c[0], c.concat({c.extents(1, 0, left), c.extents(2, count, c.dims(2).rank)})}));
}

// ---- parts ----------------------------------------------------------------------------------------------------------

std::string part(written_call& c, std::int64_t axis, std::int64_t first, std::int64_t stop, std::int64_t step = 1) {
  name_list in{c[0], c.longs({first}), c.longs({stop}), c.longs({axis})};
  if (step != 1) in.push_back(c.longs({step}));
  return c.add("Slice", std::move(in));
}
void slice(written_call& c) {
  c.give(part(c, c.axis(c.dims(0).rank), c.integer("start"), c.integer("stop"), c.integer("step")));
}
void section(written_call& c) {
  const auto start = c.integer("start");
  c.give(part(c, c.axis(c.dims(0).rank), start, start + c.integer("count")));
}
void equal_part(written_call& c) {
  const int axis = c.axis(c.dims(0).rank);
  const auto index = c.integer("part"), parts = c.integer("parts");
  if (const dim n = c.dims(0)[axis]; n.is_number()) {
    const auto count = n.code / parts;
    return c.give(part(c, axis, index * count, (index + 1) * count));
  }
  const auto all =
      c.add("Split", {c[0]}, {{"axis", std::int64_t(axis)}, {"num_outputs", parts}}, static_cast<std::size_t>(parts));
  c.give(all[static_cast<std::size_t>(index)]);
}
void select(written_call& c) {
  c.give(c.add("Gather", {c[0], c.position(c.integer("index"))}, along(c.axis(c.dims(0).rank))));
}
void slice_at(written_call& c) {
  name_list in{c[0], c[1], c[2], c.longs(numbers_of(c.list("axes")))};
  if (c.operands() > 3) in.push_back(c[3]);
  c.give(c.add("Slice", std::move(in)));
}
void concat(written_call& c) { c.give(c.add("Concat", c.all(), along(c.axis(c.dims(0).rank)))); }
void channel_shuffle(written_call& c) {
  const shape& s = c.dims(0);
  auto groups = c.integer("groups");
  const auto start = c.integer("start"), count = c.integer("count");
  std::int64_t channels = 0;
  for (std::size_t i = 0; i < c.operands(); ++i) {
    if (!c.dims(i)[1].is_number()) c.unsupported("the number of channels is not known");
    channels += c.dims(i).at(1);
  }
  if (c.flag("inverse")) groups = channels / groups;
  std::string x = c.operands() > 1 ? c.add("Concat", c.all(), along(1)) : c[0];
  x = c.add("Reshape", {x, c.longs({0, groups, channels / groups, -1})});
  x = c.add("Transpose", {x}, {{"perm", written_numbers{0, 2, 1, 3}}});
  x = c.add("Reshape", {x, c.concat({c.extents(0, 0, 1), c.longs({channels}), c.extents(0, 2, s.rank)})});
  const std::int64_t stop = count < 0 ? channels : start + count;
  if (stop - start != channels) x = c.add("Slice", {x, c.longs({start}), c.longs({stop}), c.longs({1})});
  c.give(x);
}
void truncate(written_call& c) {
  c.give(c.add("Slice", {c[0], c.longs({0}), c.add("Reshape", {c[1], c.longs({1})}), c.longs({0})}));
}

// ---- larger ---------------------------------------------------------------------------------------------------------

void padded(written_call& c, name_list borders) {
  borders.insert(borders.begin() + 1, c.number(c.real("value"), c.type(0).element));
  borders.insert(borders.begin(), c[0]);
  c.give(c.add("Pad", std::move(borders), {{"mode", std::string("constant")}}));
}
// Pads all axes explicitly: ONNX Runtime 1.32 moves a Transpose through a Pad of some axes incorrectly.
void pad(written_call& c) {
  const int rank = c.dims(0).rank, axis = c.axis(rank);
  written_numbers all(static_cast<std::size_t>(2 * rank));
  all[static_cast<std::size_t>(axis)] = c.integer("before");
  all[static_cast<std::size_t>(rank + axis)] = c.integer("after");
  padded(c, {c.longs(all)});
}
void pad_by(written_call& c) { padded(c, {c[1], c.longs(numbers_of(c.list("axes")))}); }
// Source positions along a padded axis, computed by padding the positions themselves.
void border_positions(written_call& c) {
  constexpr std::string_view modes[] = {"reflect", "edge", "wrap"};
  const auto mode = static_cast<std::size_t>(c.integer("mode"));
  if (modes[mode] == "wrap" && c.w.names().opset() < 19) c.unsupported("`wrap` padding needs opset 19");
  const auto extent = c.add("Reshape", {c[0], c.longs({})});
  const auto every = c.add("Range", {c.position(0), extent, c.position(1)});
  c.give(c.add("Pad", {every, c[1]}, {{"mode", std::string(modes[mode])}}));
}
// Adds leading axes to an operand of fewer axes than there are tile counts.
std::string of_rank(written_call& c, int rank) {
  written_numbers leading;
  for (int i = 0; i < rank - c.dims(0).rank; ++i) leading.push_back(i);
  return leading.empty() ? c[0] : c.add("Unsqueeze", {c[0], c.longs(leading)});
}
void tile(written_call& c) {
  written_numbers repeats = numbers_of(c.extents_of("repeats"));
  while (static_cast<int>(repeats.size()) < c.dims(0).rank) repeats.insert(repeats.begin(), 1);
  c.give(c.add("Tile", {of_rank(c, static_cast<int>(repeats.size())), c.longs(repeats)}));
}
void tile_by(written_call& c) {
  const dim n = c.dims(1)[0];
  if (!n.is_number()) c.unsupported("the number of axes is not known");
  const int less = c.dims(0).rank - static_cast<int>(n.code);
  std::string repeats = c[1];
  if (less > 0) repeats = c.concat({c.longs(written_numbers(static_cast<std::size_t>(less), 1)), repeats});
  c.give(c.add("Tile", {of_rank(c, static_cast<int>(n.code)), repeats}));
}
void tile_to(written_call& c) {
  const shape &from = c.dims(0), &to = c.result().dims;
  written_numbers repeats;
  for (int i = 0; i < to.rank; ++i) {
    const int at = i - (to.rank - from.rank);
    if (!to[i].is_number() || (at >= 0 && (!from[at].is_number() || from.at(at) == 0)))
      c.unsupported("its extents are not known");
    repeats.push_back(at < 0 ? to.at(i) : to.at(i) / from.at(at));
  }
  c.give(c.add("Tile", {of_rank(c, to.rank), c.longs(repeats)}));
}
void repeat(written_call& c) {
  const int axis = c.axis(c.dims(0).rank), rank = c.dims(0).rank;
  const auto count = c.integer("count");
  written_numbers repeats(static_cast<std::size_t>(rank + 1), 1), times(static_cast<std::size_t>(rank), 1);
  repeats[static_cast<std::size_t>(axis + 1)] = times[static_cast<std::size_t>(axis)] = count;
  const auto x = c.add("Tile", {c.add("Unsqueeze", {c[0], c.longs({axis + 1})}), c.longs(repeats)});
  if (c.result().dims.is_static()) return c.give(c.add("Reshape", {x, c.longs(numbers_of(c.result().dims))}));
  c.give(c.add("Reshape", {x, c.add("Mul", {c.shape_of(0), c.longs(times)})}));
}
void broadcast_like(written_call& c) { c.give(c.add("Expand", {c[0], c.shape_of(1)})); }
void sum_like(written_call& c) {
  const shape &from = c.dims(0), &to = c.dims(1);
  written_numbers reduced;
  for (int i = 0; i < from.rank; ++i) {
    const int at = i - (from.rank - to.rank);
    if (at < 0 || (to[at] == dim(1) && from[i] != dim(1))) reduced.push_back(i);
    else if (to[at] != from[i]) c.unsupported("the axes to sum over are not known");
  }
  if (reduced.empty()) return c.give(c.add("Identity", {c[0]}));
  const auto sum = c.add("ReduceSum", {c[0], c.longs(reduced)});
  c.give(from.rank == to.rank ? sum : c.add("Reshape", {sum, c.shape_of(1)}));
}
void spread(written_call& c) {
  written_numbers all = numbers_of(c.list("axes"));
  const int rank = c.dims(1).rank;
  if (all.empty())
    for (int i = 0; i < rank; ++i) all.push_back(i);
  for (auto& a : all) a = written_call::normal(a, rank);
  const auto x = c.flag("keepdim") ? c[0] : c.add("Unsqueeze", {c[0], c.longs(all)});
  c.give(c.add("Expand", {x, c.shape_of(1)}));
}
// Operand i as a scalar; it may be a vector of one element.
std::string number_at(written_call& c, std::size_t i) {
  return c.dims(i).rank == 0 ? c[i] : c.add("Reshape", {c[i], c.longs({})});
}
void arange(written_call& c) { c.give(c.add("Range", {number_at(c, 0), number_at(c, 1), number_at(c, 2)})); }
void full(written_call& c) { c.give(c.add("Expand", {number_at(c, 1), c[0]})); }
void positions(written_call& c) {
  c.give(c.add("Range", {c.position(0), c.extent(0, c.axis(c.dims(0).rank)), c.position(1)}));
}

constexpr operation_writer shapes[] = {{"arange", arange},
                                       {"as_matrix", as_matrix},
                                       {"border_positions", border_positions},
                                       {"broadcast_like", broadcast_like},
                                       {"channel_shuffle", channel_shuffle},
                                       {"concat", concat},
                                       {"dot_result", dot_result},
                                       {"flatten", flatten},
                                       {"full", full},
                                       {"group_heads", group_heads},
                                       {"pad", pad},
                                       {"pad_by", pad_by},
                                       {"permute", permute},
                                       {"positions", positions},
                                       {"repeat", repeat},
                                       {"reshape", reshape},
                                       {"reshape_like", reshape_like},
                                       {"reshape_to", reshape_to},
                                       {"select", select},
                                       {"shape_of", shape_of},
                                       {"slice", slice},
                                       {"slice_at", slice_at},
                                       {"split", section},
                                       {"split_evenly", equal_part},
                                       {"spread", spread},
                                       {"squeeze", squeeze},
                                       {"sum_like", sum_like},
                                       {"tile", tile},
                                       {"tile_by", tile_by},
                                       {"tile_to", tile_to},
                                       {"truncate", truncate},
                                       {"unsqueeze", unsqueeze}};

// ---- positions ------------------------------------------------------------------------------------------------------

void gather(written_call& c) { c.give(c.add("Gather", {c[0], c[1]}, along(c.axis(c.dims(0).rank)))); }
void take_along_axis(written_call& c) { c.give(c.add("GatherElements", {c[0], c[1]}, along(c.axis(c.dims(0).rank)))); }
void gather_nd(written_call& c) { c.give(c.add("GatherND", {c[0], c[1]}, {{"batch_dims", c.integer("batch_dims")}})); }
std::string reduction(written_call& c) {
  constexpr const char* names[] = {"none", "add", "mul", "max", "min"};
  return names[c.integer("reduction")];
}
void scatter_nd(written_call& c) {
  if (c.integer("batch_dims")) c.unsupported("ScatterND has no batch axes");
  c.give(c.add("ScatterND", c.all(), {{"reduction", reduction(c)}}));
}
void put_along_axis(written_call& c) {
  c.give(
      c.add("ScatterElements", c.all(), {{"axis", std::int64_t(c.axis(c.dims(0).rank))}, {"reduction", reduction(c)}}));
}
void scatter_elements(written_call& c) {
  const auto zeros = c.add("Expand", {c.number(0, c.type(0).element), c.shape_of(2)});
  c.give(c.add("ScatterElements", {zeros, c[1], c[0]},
               {{"axis", std::int64_t(c.axis(c.dims(2).rank))}, {"reduction", std::string("add")}}));
}
void to_one_hot(written_call& c) {
  const dtype t = c.element("element");
  const auto values = c.add(
      "Concat", {c.add("Reshape", {c.number(0, t), c.longs({1})}), c.add("Reshape", {c.number(1, t), c.longs({1})})},
      along(0));
  c.give(c.add("OneHot", {c[0], c.position(c.integer("depth")), values}, along(-1)));
}
void running_sum(written_call& c, std::string axis) {
  c.give(c.add("CumSum", {c[0], std::move(axis)},
               {{"exclusive", std::int64_t(c.flag("exclusive"))}, {"reverse", std::int64_t(c.flag("reverse"))}}));
}
void cumsum(written_call& c) { running_sum(c, c.position(c.axis(c.dims(0).rank))); }
void running_along(written_call& c) {
  if (c.flag("product")) c.unsupported("ONNX has only running sums");
  running_sum(c, c.dims(1).rank == 0 ? c[1] : c.add("Squeeze", {c[1]}));
}
void order(written_call& c) {
  const int axis = c.axis(c.dims(0).rank);
  const auto count = c.integer("count");
  const auto k = c.operands() > 1 ? c.extents(1, 0, 1) : count >= 0 ? c.longs({count}) : c.extents(0, axis, axis + 1);
  const auto both =
      c.add("TopK", {c[0], k}, {{"axis", std::int64_t(axis)}, {"largest", std::int64_t(c.flag("descending"))}}, 2);
  c.give(both[1]);
}
void argument(written_call& c, std::string_view op) {
  c.give(c.add(op, {c[0]},
               {{"axis", std::int64_t(c.axis(c.dims(0).rank))}, {"keepdims", std::int64_t(c.flag("keepdim"))}}));
}
void argmax(written_call& c) { argument(c, "ArgMax"); }
void argmin(written_call& c) { argument(c, "ArgMin"); }
// Gives exactly sized rows, and their number if it is used.
void give_rows(written_call& c, const std::string& rows) {
  if (c.is_used(1)) {
    const auto n = c.add("Shape", {rows}, {{"start", std::int64_t(0)}, {"end", std::int64_t(1)}});
    c.give(c.add("Squeeze", {n, c.longs({0})}), 1);
  }
  c.give(rows);
}
void non_zero(written_call& c) {
  give_rows(c, c.add("Transpose", {c.add("NonZero", {c[0]})}, {{"perm", written_numbers{1, 0}}}));
}
// Writes boxes [N, 4] as a batch of one image with one class. The sorting operand is not read: the operator sorts by
// itself.
void suppress(written_call& c, std::string max, std::string overlap, std::string least) {
  if (c.type(0).element != dtype::float32) c.unsupported("its boxes are not float32");
  const bool batch = c.dims(0).rank == 3;
  const auto boxes = batch ? c[0] : c.add("Unsqueeze", {c[0], c.longs({0})});
  const auto scores = batch ? c[1] : c.add("Unsqueeze", {c[1], c.longs({0, 1})});
  name_list operands{boxes, scores, std::move(max), std::move(overlap)};
  if (!least.empty()) operands.push_back(std::move(least));
  const auto rows =
      c.add("NonMaxSuppression", std::move(operands), {{"center_point_box", std::int64_t(c.flag("centers"))}});
  give_rows(c, batch ? rows : c.add("Gather", {rows, c.position(2)}, along(1)));
}
void non_max_suppression(written_call& c) {
  constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();
  const auto max = c.integer("max_per_class");
  const double least = c.real("score_threshold");
  suppress(c, c.position(max == suppression_attributes::all ? any : max),
           c.number(c.real("iou_threshold"), dtype::float32),
           std::isinf(least) && least < 0 ? "" : c.number(least, dtype::float32));
}
void computed_suppression(written_call& c) { suppress(c, c[3], c[4], c[5]); }

// Windows along an axis by positions; `inside` masks positions outside of the axis.
struct windows {
  std::string inside, elements;
};
windows windows_of(written_call& c, int axis) {
  const auto valid =
      c.add("And", {c.add("GreaterOrEqual", {c[1], c.position(0)}), c.add("Less", {c[1], c.extent(0, axis)})});
  return {valid, c.add("Gather", {c[0], c.add("Where", {valid, c[1], c.position(0)})}, along(axis))};
}
// Reshapes a table [points, taps] to broadcast against elements [.., points, taps, ..].
std::string unsqueeze_table(written_call& c, std::string table, int axis) {
  written_numbers trailing;
  for (int i = axis + 1; i < c.dims(0).rank; ++i) trailing.push_back(2 + i - axis - 1);
  return trailing.empty() ? table : c.add("Unsqueeze", {std::move(table), c.longs(trailing)});
}
void resample(written_call& c) {
  if (c.integer("batch_axes")) c.unsupported("each row has its own table");
  const int axis = c.axis(c.dims(0).rank);
  const auto w = windows_of(c, axis);
  const auto weights = c.add("Where", {w.inside, c[2], c.number(0, c.type(2).element)});
  const auto terms = c.add("Mul", {w.elements, unsqueeze_table(c, weights, axis)});
  c.give(c.add("ReduceSum", {terms, c.longs({axis + 1})}, {{"keepdims", std::int64_t(0)}}));
}
void max_windows(written_call& c) {
  if (c.is_used(1)) c.unsupported("the indices of its maxima are used");
  const int axis = c.axis(c.dims(0).rank);
  const auto w = windows_of(c, axis);
  const double least = -std::numeric_limits<double>::infinity();  // for integers the lowest value
  const auto terms =
      c.add("Where", {unsqueeze_table(c, w.inside, axis), w.elements, c.number(least, c.type(0).element)});
  c.give(c.add("ReduceMax", {terms, c.longs({axis + 1})}, {{"keepdims", std::int64_t(0)}}));
}

constexpr operation_writer indices[] = {{"argmax", argmax},
                                        {"argmin", argmin},
                                        {"computed_suppression", computed_suppression},
                                        {"cumsum", cumsum},
                                        {"running_along", running_along},
                                        {"gather", gather},
                                        {"gather_nd", gather_nd},
                                        {"max_windows", max_windows},
                                        {"non_max_suppression", non_max_suppression},
                                        {"non_zero", non_zero},
                                        {"order", order},
                                        {"put_along_axis", put_along_axis},
                                        {"resample", resample},
                                        {"scatter_elements", scatter_elements},
                                        {"scatter_nd", scatter_nd},
                                        {"take_along_axis", take_along_axis},
                                        {"to_one_hot", to_one_hot}};

}  // namespace

view<const operation_writer> shape_writers() { return shapes; }
view<const operation_writer> index_writers() { return indices; }

}  // namespace lamina::onnx
