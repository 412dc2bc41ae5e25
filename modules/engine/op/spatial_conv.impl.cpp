module lamina:op.spatial_conv.impl;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.computed_shape;
import :op.elementwise;
import :op.grid;
import :op.linear;
import :op.nn;
import :op.sample;
import :op.shape;
import :op.spatial;
import :op.extents;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::extent_of, detail::extent_value, detail::known_extent, detail::per_axis, detail::reshaped,
    detail::spatial_axes, detail::times, detail::to_the_end, detail::trimmed;
using numbers = std::vector<std::int64_t>;

struct conv_numbers {
  numbers strides, before, after, dilations, more;
  std::int64_t groups;
  // Prepends the numbers of an axis of extent 1.
  void add_row() {
    strides.insert(strides.begin(), 1), dilations.insert(dilations.begin(), 1);
    before.insert(before.begin(), 0), after.insert(after.begin(), 0), more.insert(more.begin(), 0);
  }
  // The numbers without the first axis.
  conv_numbers frames() const {
    conv_numbers c = *this;
    for (numbers* n : {&c.strides, &c.before, &c.after, &c.dilations, &c.more}) n->erase(n->begin());
    return c;
  }
};
template <class Options> conv_numbers numbers_of(const Options& o, int axes, std::string_view function) {
  conv_numbers c{per_axis(o.strides, axes, 1, function, "strides"),
                 per_axis(o.paddings_before, axes, 0, function, "paddings_before"),
                 per_axis(o.paddings_after, axes, 0, function, "paddings_after"),
                 per_axis(o.dilations, axes, 1, function, "dilations"),
                 numbers(static_cast<std::size_t>(axes), 0),
                 o.groups};
  if constexpr (requires { o.output_paddings; })
    c.more = per_axis(o.output_paddings, axes, 0, function, "output_paddings");
  return c;
}
void check_filters(const value& x, const value& w, std::string_view function) {
  if (w.shape().rank == x.shape().rank && w.shape().rank >= 3) return;
  text t;
  t << std::string_view(origin::prefix()) << function << ": filters " << w.shape() << " for " << x.shape()
    << "; expected the same rank";
  detail::raise(error_kind::shape, t);
}
// Limits a count that becomes that many operations or numbers of a program.
void check_count(std::int64_t is, std::int64_t max, std::string_view what, std::string_view function) {
  if (is <= max) return;
  text t;
  t << std::string_view(origin::prefix()) << function << ": " << what << " is " << is << "; at most " << max
    << " is supported";
  detail::raise(error_kind::unsupported, t);
}
// Number of filter planes along the first spatial axis: each becomes a convolution of images.
std::int64_t depth_of(const value& w, std::string_view function) {
  constexpr std::int64_t max = 1024;
  text t;
  if (w.shape()[2].is_number() && w.shape().at(2) > 0) {
    check_count(w.shape().at(2), max, "the depth of the filters", function);
    return w.shape().at(2);
  }
  t << std::string_view(origin::prefix()) << function << ": the extents of the filters " << w.shape()
    << " must be known and positive";
  detail::raise(error_kind::shape, t);
}

value conv_image(const value& x, const value& w, const conv_numbers& c) {
  return conv2d(x, w,
                {.stride = {c.strides[0], c.strides[1]},
                 .padding = {c.before[0], c.before[1]},
                 .dilation = {c.dilations[0], c.dilations[1]},
                 .groups = c.groups,
                 .padding_more = {c.after[0] - c.before[0], c.after[1] - c.before[1]}});
}
// A convolution of images for all planes of the filters: each image has the channels of all frames that it reads. With
// groups, whose channels must be neighbors, and for many planes, the sum of one convolution for each plane.
value conv_volume(const value& x, const value& w, const conv_numbers& c) {
  const std::int64_t depth = depth_of(w, "conv");
  value frames = detail::frames_first(x);
  if (c.before[0] || c.after[0]) frames = pad(frames, {.axis = 1, .before = c.before[0], .after = c.after[0]});
  std::vector<value> parts;
  extent_value count;
  for (std::int64_t k = 0; k < depth; ++k) {
    const value part = detail::frames_under(frames, k, depth, c.strides[0], c.dilations[0]);
    if (k == 0) count = extent_of(part, 1);
    parts.push_back(detail::merged(part, 0, 2));
  }
  value y;
  if (constexpr std::int64_t max_copies = 16; c.groups == 1 && depth <= max_copies) {
    const value all = depth == 1 ? parts[0] : value(concat(view<const value>(parts), 1)),
                filters = detail::merged(depth == 1 ? w : detail::frames_first(w), 1, 3);
    y = conv_image(all, filters, c.frames());
  } else
    for (std::int64_t k = 0; k < depth; ++k) {
      const value part = conv_image(parts[static_cast<std::size_t>(k)], select(w, 2, k), c.frames());
      y = y.empty() ? part : value(y + part);
    }
  return detail::volumes_of(y, extent_of(x, 0), count);
}

value transposed_image(const value& x, const value& w, const conv_numbers& c) {
  bool plain = true;
  for (std::size_t i = 0; i < 2; ++i)
    plain = plain && c.before[i] == c.after[i] && c.more[i] >= 0 && c.more[i] < c.strides[i];
  conv_transpose2d_attributes a{
      .stride = {c.strides[0], c.strides[1]}, .dilation = {c.dilations[0], c.dilations[1]}, .groups = c.groups};
  if (plain) {
    a.padding = {c.before[0], c.before[1]};
    a.output_padding = {c.more[0], c.more[1]};
    return conv_transpose2d(x, w, a);
  }
  value y = conv_transpose2d(x, w, a);
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<std::size_t>(i);
    y = trimmed(y, 2 + i, c.before[k], c.after[k], c.more[k]);
  }
  return y;
}
// Inserts stride - 1 zeros between the frames of axis 1.
value spread_frames(const value& y, std::int64_t stride) {
  if (stride == 1) return y;
  value z = pad(unsqueeze(y, axes(2)), {.axis = 2, .after = stride - 1});
  return slice(detail::merged(z, 1, 3), {.stop = 1 - stride, .axis = 1});
}
value transposed_volume(const value& x, const value& w, const conv_numbers& c) {
  const std::int64_t depth = depth_of(w, "conv_transpose");
  const value frames = detail::merged(detail::frames_first(x), 0, 2);
  value sum;
  for (std::int64_t k = 0; k < depth; ++k) {
    value y = transposed_image(frames, select(w, 2, k), c.frames());
    y = spread_frames(detail::split_frames(y, extent_of(x, 0), extent_of(x, 2)), c.strides[0]);
    const std::int64_t first = k * c.dilations[0], rest = (depth - 1 - k) * c.dilations[0];
    if (first || rest) y = pad(y, {.axis = 1, .before = first, .after = rest});
    sum = sum.empty() ? y : value(sum + y);
  }
  return detail::frames_first(trimmed(sum, 1, c.before[0], c.after[0], c.more[0]));
}
// Checks strides and other numbers of a volume's depth, which no image operation checks.
void check_depth(const conv_numbers& c, std::string_view function) {
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t n : {c.strides[0], c.dilations[0], c.before[0] + 1, c.after[0] + 1, c.more[0] + 1})
    if (n < 1 || n > max) {
      text t;
      t << std::string_view(origin::prefix()) << function
        << ": strides and dilations must be positive, paddings not negative, all less than " << max;
      detail::raise(error_kind::shape, t);
    }
}

}  // namespace

value conv(const value& x, const value& w, const conv_options& o, const origin&) {
  const int axes_count = spatial_axes(x, 3, "conv");
  check_filters(x, w, "conv");
  conv_numbers c = numbers_of(o, axes_count, "conv");
  if (axes_count == 1) {
    c.add_row();
    return squeeze(conv_image(unsqueeze(x, axes(2)), unsqueeze(w, axes(2)), c), axes(2));
  }
  if (axes_count == 2) return conv_image(x, w, c);
  check_depth(c, "conv");
  return conv_volume(x, w, c);
}

value conv_transpose(const value& x, const value& w, const conv_transpose_options& o, const origin&) {
  const int axes_count = spatial_axes(x, 3, "conv_transpose");
  check_filters(x, w, "conv_transpose");
  conv_numbers c = numbers_of(o, axes_count, "conv_transpose");
  if (axes_count == 1) {
    c.add_row();
    return squeeze(transposed_image(unsqueeze(x, axes(2)), unsqueeze(w, axes(2)), c), axes(2));
  }
  if (axes_count == 2) return transposed_image(x, w, c);
  check_depth(c, "conv_transpose");
  return transposed_volume(x, w, c);
}

namespace {

// Positions where filter elements sample an axis: [N G, K, OH, OW], from offsets of that shape. `along` is the axis of
// the result, `steps` the offset of each filter element.
value sampled_positions(const value& offsets, int along, std::int64_t stride, std::int64_t before,
                        const numbers& steps) {
  program& p = offsets.owner();
  const dtype element = offsets.type().element;
  const value places = apply<op::cast>({element}, positions(offsets, along)) * stride - before;
  const value rows = apply<op::cast>({element}, detail::int_list(p, view<const std::int64_t>(steps)));
  return offsets + unsqueeze(places, along == 2 ? axes(1) : axes(0)) + unsqueeze(rows, axes(1, 2));
}

}  // namespace

value deform_conv(const value& x, const value& w, const value& offsets, const value& mask, const conv_options& o,
                  std::int64_t offset_groups, const origin&) {
  check_filters(x, w, "deform_conv");
  const shape& f = w.shape();
  if (spatial_axes(x, 2, "deform_conv") != 2 || !f.is_static() || f.size() == 0 || offsets.shape().rank != 4 ||
      o.groups < 1 || offset_groups < 1 || f.at(0) % o.groups || f.at(1) * o.groups % offset_groups) {
    text t;
    t << std::string_view(origin::prefix())
      << "deform_conv: images [N, C, H, W], filters of known extents and offsets ["
      << "N, 2 G K, OH, OW] are expected, groups that divide the channels; given " << x.shape() << ", " << f << ", "
      << offsets.shape();
    detail::raise(error_kind::shape, t);
  }
  check_count(f.at(2) * f.at(3), 1 << 16, "the number of elements of a filter", "deform_conv");
  const conv_numbers c = numbers_of(o, 2, "deform_conv");
  program& p = x.owner();
  const std::int64_t taps = f.at(2) * f.at(3), channels = f.at(1) * o.groups;
  const extent_value count = extent_of(x, 0), high = extent_of(offsets, 2), wide = extent_of(offsets, 3),
                     sets = times(p, count, known_extent(offset_groups)), places = times(p, high, wide);
  const value both = reshaped(offsets, {count, known_extent(offset_groups * taps), known_extent(2), high, wide});
  numbers down, across;
  for (std::int64_t i = 0; i < taps; ++i) {
    down.push_back(i / f.at(3) * c.dilations[0]);
    across.push_back(i % f.at(3) * c.dilations[1]);
  }
  const auto coordinate = [&](std::int64_t which, const numbers& steps) {
    const auto k = static_cast<std::size_t>(which);
    const value off = reshaped(select(both, 2, which), {sets, known_extent(taps), high, wide});
    return flatten<1>(sampled_positions(off, 2 + static_cast<int>(which), c.strides[k], c.before[k], steps));
  };
  const value coordinates[] = {coordinate(0, down), coordinate(1, across)};
  const extent_value extents[] = {extent_of(x, 2), extent_of(x, 3)};
  auto [at, weights] = detail::neighbors_of(coordinates, extents, {.align_corners = true});
  if (!mask.empty())
    weights = weights * unsqueeze(reshaped(mask, {sets, times(p, known_extent(taps), places)}), axes(2));
  const value images = reshaped(x, {sets, known_extent(channels / offset_groups), times(p, extents[0], extents[1])});
  const value columns = reshaped(resample(images, at, weights, {.axis = 2, .batch_axes = 1}),
                                 {count, known_extent(o.groups), known_extent(f.at(1) * taps), places});
  const value filters = reshape(w, shape{o.groups, f.at(0) / o.groups, f.at(1) * taps});
  return reshaped(matmul(filters, columns), {count, known_extent(f.at(0)), high, wide});
}

namespace {

axes as_axes(const numbers& all) {
  axes a;
  for (std::int64_t n : all) a.values[a.count++] = static_cast<std::int32_t>(std::clamp<std::int64_t>(n, -1, 1 << 30));
  return a;
}
// The extents in an int64 list.
std::vector<extent_value> extents_in(const value& v, int count) {
  const auto known = detail::known_numbers(v);
  std::vector<extent_value> all;
  for (int i = 0; i < count; ++i)
    all.push_back(known ? known_extent(static_cast<std::int64_t>((*known)[static_cast<std::size_t>(i)]))
                        : extent_value{-1, slice(v, {.start = i, .stop = i + 1})});
  return all;
}

}  // namespace

value col2im(const value& x, const numbers& image, const numbers& block, const conv_options& o, const origin&) {
  program& p = x.owner();
  return col2im(x, detail::int_list(p, view<const std::int64_t>(image)),
                detail::int_list(p, view<const std::int64_t>(block)), o);
}
value col2im(const value& x, const value& image, const value& block, const conv_options& o, const origin&) {
  const auto refuse = [&](std::string_view why) {
    text t;
    t << std::string_view(origin::prefix()) << "col2im: " << x.shape() << " as blocks of an image: " << why;
    detail::raise(error_kind::shape, t);
  };
  const int count = image.shape().rank == 1 && image.shape()[0].is_number() && image.shape().at(0) <= 3
                        ? static_cast<int>(image.shape().at(0))
                        : 0;
  if (x.shape().rank != 3 || count < 1) refuse("[N, C K, blocks] and 1 to 3 axes are expected");
  const conv_numbers c = numbers_of(o, count, "col2im");
  const value table = apply<op::block_positions>(
      {as_axes(c.strides), as_axes(c.dilations), as_axes(c.before), as_axes(c.after)}, image, block);
  program& p = x.owner();
  extent_value taps = known_extent(1), places = known_extent(1);
  for (const auto& e : extents_in(block, count)) taps = times(p, taps, e);
  const auto extents = extents_in(image, count);
  for (const auto& e : extents) places = times(p, places, e);
  const extent_value n = extent_of(x, 0), all = extent_of(x, 1), points = extent_of(table, 0);
  extent_value channels;
  if (all.known() && taps.known()) {
    if (all.number % taps.number) refuse("the channels are not a multiple of a block");
    channels = known_extent(all.number / taps.number);
  } else channels = {-1, all.in(p) / taps.in(p)};
  if (points.known() && taps.known() && !may_equal(x.shape()[2], points.number / taps.number)) {
    text t;
    t << "the image has " << points.number / taps.number << " blocks";
    refuse(std::string_view(t.view()));
  }
  const dtype element = x.type().element;
  const value ones = broadcast_like(p.number(1.0, element), table);
  const extent_value like[] = {n, channels, places};
  std::vector<extent_value> to{n, channels};
  to.insert(to.end(), extents.begin(), extents.end());
  return reshaped(apply<op::resample_grad>({.axis = 2}, reshaped(x, {n, channels, points}), table, ones,
                                           full(detail::list_of(p, like), p.number(0.0, element))),
                  to);
}

}  // namespace lamina
