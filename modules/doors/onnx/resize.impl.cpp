// Operators that resize images, sample them at computed coordinates, pad or crop.
module lamina.onnx:resize.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Maps the string of an attribute to its meaning.
template <class T> T choice(node_call& c, std::string_view name, std::string_view otherwise,
                            std::initializer_list<std::pair<std::string_view, T>> all) {
  const std::string given = c.string(name, otherwise);
  for (const auto& [known, meaning] : all)
    if (given == known) return meaning;
  c.fail("unknown `", name, "` `", printable(given), "`");
}
resize_mode mode_of(node_call& c, std::string_view otherwise) {
  return choice<resize_mode>(c, "mode", otherwise,
                             {{"nearest", resize_mode::nearest},
                              {"linear", resize_mode::linear},
                              {"bilinear", resize_mode::linear},
                              {"trilinear", resize_mode::linear},
                              {"cubic", resize_mode::cubic},
                              {"bicubic", resize_mode::cubic}});
}
// Whether operand i is present and not empty.
bool filled(node_call& c, std::size_t i) { return c.has(i) && !(c.dims(i).rank == 1 && c.dims(i)[0] == dim(0)); }
// Resizes x by the scales or sizes in operand i, in a type with arithmetic.
void give_resized(node_call& c, const resize_options& o, std::size_t operand, bool sizes) {
  value x = o.mode == resize_mode::nearest ? c[0] : c.number(0);
  const bool integral = is_integer(x.type().element) && o.mode != resize_mode::nearest;
  if (integral) x = c.cast_to(x, dtype::float32);
  const auto known = sizes ? c.known_integers(operand) : std::nullopt;
  const value target = known ? c.constant(*known) : sizes ? c.cast_to(c[operand], dtype::int64) : c.number(operand);
  const bool crops = o.coordinates == resize_coordinates::tf_crop_and_resize;
  const value y = lamina::resize(x, target, crops ? c.number(1) : value(), o);
  c.give_like(0, integral ? value(lamina::round(y)) : y);
}

void resize(node_call& c) {
  using coordinates = resize_coordinates;
  resize_options o;
  o.mode = mode_of(c, "nearest");
  o.coordinates = choice<coordinates>(c, "coordinate_transformation_mode", "half_pixel",
                                      {{"half_pixel", coordinates::half_pixel},
                                       {"half_pixel_symmetric", coordinates::half_pixel_symmetric},
                                       {"pytorch_half_pixel", coordinates::pytorch_half_pixel},
                                       {"align_corners", coordinates::align_corners},
                                       {"asymmetric", coordinates::asymmetric},
                                       {"tf_half_pixel_for_nn", coordinates::tf_half_pixel_for_nn},
                                       {"tf_crop_and_resize", coordinates::tf_crop_and_resize}});
  o.rounding = choice<nearest_rounding>(c, "nearest_mode", "round_prefer_floor",
                                        {{"round_prefer_floor", nearest_rounding::prefer_floor},
                                         {"round_prefer_ceil", nearest_rounding::prefer_ceil},
                                         {"floor", nearest_rounding::floor},
                                         {"ceil", nearest_rounding::ceil}});
  o.policy = choice<aspect_ratio>(c, "keep_aspect_ratio_policy", "stretch",
                                  {{"stretch", aspect_ratio::stretch},
                                   {"not_larger", aspect_ratio::not_larger},
                                   {"not_smaller", aspect_ratio::not_smaller}});
  o.cubic_coeff_a = c.real("cubic_coeff_a", -0.75);
  o.extrapolation_value = c.real("extrapolation_value", 0);
  o.exclude_outside = c.flag("exclude_outside");
  o.antialias = c.flag("antialias");
  o.axes = c.node_call::integers("axes");
  const bool sizes = filled(c, 3);
  if (!sizes && !filled(c, 2)) c.fail("it has neither scales nor sizes");
  give_resized(c, o, sizes ? 3 : 2, sizes);
}
// Before opset 11, source coordinates are asymmetric: the output position divided by the scale.
resize_options older_options(node_call& c) {
  return {.mode = mode_of(c, "nearest"),
          .coordinates = resize_coordinates::asymmetric,
          .rounding = nearest_rounding::floor};
}
void resize_10(node_call& c) { give_resized(c, older_options(c), 1, false); }
void upsample_7(node_call& c) {
  resize_options o = older_options(c);
  o.scales = c.reals("scales");
  c.give_like(0, lamina::resize(o.mode == resize_mode::nearest ? c[0] : c.number(0), o));
}

// ---- borders --------------------------------------------------------------------------------------------------------

// Pads with a constant, by computed sizes if they are unknown or negative.
value bordered(node_call& c, const value& x, const std::optional<std::vector<std::int64_t>>& known,
               const value& borders, lamina::axes along, double number) {
  const bool grows = known && std::all_of(known->begin(), known->end(), [](auto n) { return n >= 0; });
  if (!grows) return lamina::pad_by(x, borders, {.axes = along, .value = number});
  value y = x;
  for (int i = 0; i < along.count; ++i) {
    const std::int64_t before = (*known)[static_cast<std::size_t>(i)],
                       after = (*known)[static_cast<std::size_t>(i + along.count)];
    if (before || after) y = lamina::pad(y, {.axis = along[i], .before = before, .after = after, .value = number});
  }
  (void)c;
  return y;
}
// Expands the padding of computed axes to all axes.
value spread_borders(node_call& c, int rank) {
  if (c.rank(3) != 1 || !c.dims(3)[0].is_number()) c.unsupported("the number of its axes is not known");
  const std::int64_t count = c.dims(3).at(0);
  std::vector<std::int64_t> positions;
  for (int i = 0; i < rank; ++i) positions.push_back(i);
  const value named = lamina::unsqueeze(c.cast_to(c[3], dtype::int64), lamina::axes(1));
  const value marked = lamina::where(named < 0, named + rank, named) == c.constant(positions);  // [axes, rank]
  const value given = c.cast_to(c[1], dtype::int64);
  std::vector<value> both;
  for (std::int64_t first : {std::int64_t(0), count}) {
    const value column =
        lamina::unsqueeze(lamina::slice(given, {.start = first, .stop = first + count}), lamina::axes(1));
    both.push_back(lamina::reduce_sum(lamina::where(marked, column, 0), {.axes = lamina::axes(0)}));
  }
  return lamina::concat(view<const value>(both), 0);
}
void pad(node_call& c) {
  const value x = c[0];
  const int rank = x.shape().rank;
  std::optional<std::vector<std::int64_t>> known;
  if (c.opset < 11) known = c.node_call::integers(c.opset < 2 ? "paddings" : "pads");
  else known = c.known_integers(1);
  lamina::axes along;
  for (int i = 0; i < rank; ++i) along.values[along.count++] = i;
  value borders;
  if (c.has(3) && !c.known_integers(3)) {
    borders = spread_borders(c, rank);
    known.reset();
  } else {
    if (c.has(3)) along = c.axes_of(c.integers(3, "axes"), rank);
    if (known && known->size() != 2 * static_cast<std::size_t>(along.count))
      c.fail("it has ", known->size(), " pads for ", along.count, " axes");
    borders = known ? c.constant(*known) : c.cast_to(c[1], dtype::int64);
  }
  const auto mode = c.string("mode", "constant");
  if (mode != "constant") {
    const auto m = choice<border_mode>(
        c, "mode", "", {{"reflect", border_mode::reflect}, {"edge", border_mode::edge}, {"wrap", border_mode::wrap}});
    return c.give(0, along.count ? lamina::pad_by(x, borders, along, m) : x);
  }
  if (c.opset < 11 || !c.has(2) || c.known(2)) {
    const double number = c.opset < 11 ? c.real("value", 0) : c.known_number(2, "padding value", 0);
    return c.give(0, bordered(c, x, known, borders, along, number));
  }
  const value inside = lamina::broadcast_like(c.constant(1.0, dtype::float32), x);
  c.give(0, lamina::where(bordered(c, inside, known, borders, along, 0) > 0.5, bordered(c, x, known, borders, along, 0),
                          lamina::reshape(c[2], shape{})));
}
void center_crop_pad(node_call& c) {
  const value x = c[0];
  const auto named = c.node_call::integers("axes");
  const auto known = c.known_integers(1);
  const value to = known ? c.constant(*known) : c.cast_to(c[1], dtype::int64);
  c.give(0, lamina::center_crop_pad(x, to, c.axes_of(named, x.shape().rank)));
}
void depth_to_space(node_call& c) {
  const auto order = choice<bool>(c, "mode", "DCR", {{"DCR", false}, {"CRD", true}});
  c.give(0, lamina::depth_to_space(c[0], c.integer("blocksize"), order));
}
void space_to_depth(node_call& c) {
  const auto order = choice<bool>(c, "mode", "DCR", {{"DCR", false}, {"CRD", true}});
  c.give(0, lamina::space_to_depth(c[0], c.integer("blocksize"), order));
}

// ---- computed coordinates -------------------------------------------------------------------------------------------

void grid_sample(node_call& c) {
  value x = c.number(0);
  const bool integral = is_integer(x.type().element);
  if (integral) x = c.cast_to(x, dtype::float32);
  const grid_options o{
      .mode = mode_of(c, c.opset < 20 ? "bilinear" : "linear"),
      .padding = choice<grid_padding>(
          c, "padding_mode", "zeros",
          {{"zeros", grid_padding::zeros}, {"border", grid_padding::border}, {"reflection", grid_padding::reflection}}),
      .align_corners = c.flag("align_corners")};
  const value y = lamina::grid_sample(x, c.cast_to(c.number(1), x.type().element), o);
  c.give_like(0, integral ? value(lamina::round(y)) : y);
}
void affine_grid(node_call& c) {
  const auto known = c.known_integers(1);
  const value size = known ? c.constant(*known) : c.cast_to(c[1], dtype::int64);
  c.give_like(0, lamina::affine_grid(c.number(0), size, c.flag("align_corners")));
}
void roi_align(node_call& c) {
  const roi_options o{
      .height = c.integer("output_height", 1),
      .width = c.integer("output_width", 1),
      .sampling_ratio = c.integer("sampling_ratio", 0),
      .spatial_scale = c.real("spatial_scale", 1),
      .half_pixel = choice<bool>(c, "coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel",
                                 {{"half_pixel", true}, {"output_half_pixel", false}}),
      .maximum = choice<bool>(c, "mode", "avg", {{"avg", false}, {"max", true}})};
  const value x = c.number(0);
  c.give_like(0, lamina::roi_align(x, c.cast_to(c.number(1), x.type().element), c.cast_to(c[2], dtype::int64), o));
}
void max_roi_pool(node_call& c) {
  const auto extents = c.node_call::integers("pooled_shape");
  if (extents.size() != 2) c.fail("`pooled_shape` has ", extents.size(), " numbers; expected 2");
  const value x = c.number(0);
  c.give_like(0, lamina::max_roi_pool(x, c.cast_to(c.number(1), x.type().element), extents[0], extents[1],
                                      c.real("spatial_scale", 1)));
}

constexpr converter_entry entries[] = {
    {"AffineGrid", 20, affine_grid},     {"CenterCropPad", 18, center_crop_pad},
    {"DepthToSpace", 1, depth_to_space}, {"GridSample", 16, grid_sample},
    {"MaxRoiPool", 1, max_roi_pool},     {"Pad", 1, pad},
    {"Resize", 10, resize_10},           {"Resize", 11, resize},
    {"RoiAlign", 10, roi_align},         {"SpaceToDepth", 1, space_to_depth},
    {"Upsample", 7, upsample_7},         {"Upsample", 9, resize_10},
};

}  // namespace

converter_list resize_converters() { return entries; }

}  // namespace lamina::onnx
