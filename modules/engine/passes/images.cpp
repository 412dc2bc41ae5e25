// Gives elementwise operations on images four axes, so that they can use channel blocks. One-dimensional convolutions
// run as images of one row, [N, C, 1, L], those of volumes [N, C, D, H, W] as images of their frames, [N D, C, H, W]:
// operations after them keep that shape, and the program's rank is restored at the end. A slice of a
// convolution's map becomes its padding, as causal convolutions are written; other parts, concatenations of channels
// and reductions of whole maps are those of the images.
module lamina:passes.images;
import :core;
import :dtype;
import :op;
import :op.nn;
import :op.reduce;
import :op.shape;
import :passes.pattern;
import :program;
import :rewriter;
import :shape;
import lamina.std;

namespace lamina::rewriting {

/// Whether a node is a reshape of operand 0, in any spelling.
bool reshapes(const node& n) { return n.op && n.op->alias == 0 && n.op->identity == identity_rule::if_types_agree; }

/// Whether a node reduces the spatial axes of [N, C, H, W] or [N, C, L], and no others, in an operation on images.
bool reduces_maps(const node& n, const shape& of) {
  if (!is_call_of<op::reduce_max>(n) && !is_call_of<op::reduce_mean>(n) && !is_call_of<op::reduce_min>(n) &&
      !is_call_of<op::reduce_sum>(n))
    return false;
  unsigned bits = 0;
  return detail::reduced_axes(n.attributes_as<reduce_attributes>(), of.rank, bits) && bits == (of.rank == 4   ? 0b1100u
                                                                                               : of.rank == 3 ? 0b100u
                                                                                                              : 0u);
}

/// The axis of extent 1, rows or columns, whose removal turns `image` into the sequence `without`; -1 if there is none.
int one_axis(const shape& image, const shape& without) {
  for (int axis : {2, 3})
    if (image[axis] == dim(1) && image[5 - axis] == without[2] && image[0] == without[0] && image[1] == without[1])
      return axis;
  return -1;
}

/// Moves elementwise operations and concatenations of channels before the reshape of images [N, C, H, W] to [N, C, L],
/// and before the reshape and permutation of images to volumes; parts and reductions before the former.
class image_shapes {
 public:
  explicit image_shapes(const program& p) : p_(p), copy_(p, to_) {
    to_.path = p.path;
    to_.common_subexpressions = p.common_subexpressions;
  }
  /// The rewritten program; empty if there is nothing to move.
  std::optional<program> run() {
    bool any = false;
    for (const auto& n : p_.nodes())
      any = any || (reshapes(n) && n.results[0].dims.rank == 3 && is_image(p_, n.inputs[0])) || swaps_frames(n) ||
            removes_maps(n);
    if (!any) return {};
    graph_.emplace(p_);
    copy_.run([&](std::int32_t i, const node& n) {
      value made = n.op && n.op->layout_free   ? moved(n)
                   : reshapes(n)               ? joined(n)
                   : reduces(n)                ? reduced(n)
                   : n.op && n.op->part_of     ? selected(n)
                   : swaps_frames(n)           ? swapped_back(n)
                   : is_call_of<op::concat>(n) ? joined_channels(n)
                                               : value();
      if (made.empty()) return false;
      copy_.set({i, 0}, made);
      return true;
    });
    return std::move(to_);
  }

 private:
  bool is_image(const program& p, value_id v) const {
    const node& n = p.at(v);
    return n.op && (n.op->images || n.op->layout_free) && p.type(v).dims.rank == 4;
  }
  // The image [N, C, H, W] that a value [N, C, L] is a reshape of; else empty.
  value image_of(const value& v) {
    const node& n = to_.at(v.id());
    if (!reshapes(n) || v.shape().rank != 3 || !is_image(to_, n.inputs[0])) return {};
    value of(&to_, n.inputs[0]);
    return one_axis(of.shape(), v.shape()) < 0 ? value() : of;
  }
  // An operand of an operation on images, with the missing `axis` inserted.
  value as_image(const value& v, int axis, const shape& image) {
    if (value of = image_of(v); !of.empty() && of.shape() == image) return of;
    const shape& s = v.shape();
    const int trailing = 3 - axis;  // image axes after `axis`
    if (s.rank <= trailing) return v;
    shape with;
    for (int i = 0; i < s.rank; ++i) {
      if (s.rank - i == trailing) with.push_back(dim(1));
      with.push_back(s[i]);
    }
    if (trailing == 0) with.push_back(dim(1));
    if (with.rank == 3) with = {dim(1), with[0], with[1], with[2]};
    return reshape(v, with);
  }
  // A call of a node's operation, under its path.
  value call(const node& n, std::shared_ptr<const void> attributes, const std::vector<value>& in) {
    to_.path = n.path.empty() ? p_.path : n.path;
    const value made(&to_, to_.add(*n.op, std::move(attributes), in));
    to_.path = p_.path;
    return made;
  }
  value call(const node& n, const std::vector<value>& in) { return call(n, n.attributes, in); }
  value moved(const node& n) {
    if (n.results.size() != 1) return {};
    if (n.results[0].dims.rank == 5) return moved_volume(n);
    if (n.results[0].dims.rank != 3) return {};
    const auto in = copy_.operands(n);
    value image;
    for (const auto& v : in)
      if (image.empty() && v.shape() == n.results[0].dims) image = image_of(v);
    if (image.empty()) return {};
    const int axis = one_axis(image.shape(), n.results[0].dims);
    std::vector<value> as_images;
    for (const auto& v : in) as_images.push_back(as_image(v, axis, image.shape()));
    return reshape(call(n, as_images), n.results[0].dims);
  }

  // ---- reductions of maps ----

  bool reduces(const node& n) const { return !n.inputs.empty() && reduces_maps(n, p_.type(n.inputs[0]).dims); }
  // Whether a reduction of images removes the axes that it reduces.
  bool removes_maps(const node& n) const {
    return reduces(n) && n.results[0].dims.rank == 2 && is_image(p_, n.inputs[0]);
  }
  // The reduction of an image that keeps its axes: it reads channel blocks.
  value reduced(const node& n) {
    const value in = copy_.operands(n)[0], image = removes_maps(n) ? in : in.shape().rank == 3 ? image_of(in) : value();
    if (image.empty()) return {};
    return reshape(call(n, std::make_shared<const reduce_attributes>(axes(2, 3), true), {image}), n.results[0].dims);
  }

  // ---- slices of maps ----

  // A part of an axis of an image.
  struct part {
    int axis;
    std::int64_t first, count;
  };
  // A part of a sequence [N, C, L] as one of its image [N, C, H, W]. A part of the positions is a part of a convolution
  // if this can be computed alone: of nothing else, and of elementwise operations with numbers that do not differ along
  // the axis.
  value selected(const node& n) {
    const shape& s = p_.type(n.inputs[0]).dims;
    if (s.rank != 3 || n.results[0].dims.rank != 3 || !s.is_static()) return {};
    const value whole = image_of(copy_.operands(n)[0]);
    if (whole.empty()) return {};
    const auto at = n.op->part_of(n.attributes.get(), s);
    if (!at || at->axis == 0) return {};
    const int axis = at->axis == 1 ? 1 : 5 - one_axis(whole.shape(), s);
    value image = axis == 1 ? value() : part_of(n.inputs[0], {axis, at->first, at->count});
    if (image.empty()) image = slice(whole, {.start = at->first, .stop = at->first + at->count, .axis = axis});
    return reshape(image, n.results[0].dims);
  }
  // The part of a value as an image; empty if it cannot be computed alone.
  value part_of(value_id v, const part& of) {
    const node& n = p_.at(v);
    const shape& s = p_.type(v).dims;
    if (!graph_->inner(v) || n.results.size() != 1) return {};
    if (is_call_of<op::conv2d>(n)) return part_of_convolution(n, of);
    if (reshapes(n) && s.rank == 3 && one_axis(p_.type(n.inputs[0]).dims, s) == 5 - of.axis)
      return part_of(n.inputs[0], of);
    if (!n.op || !n.op->layout_free || s.rank != 3) return {};
    value image;
    std::vector<value> in = copy_.operands(n);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const shape& of_operand = in[i].shape();
      if (of_operand == s) {
        if (in[i] = part_of(n.inputs[i], of); in[i].empty()) return {};
        image = in[i];
      } else if (of_operand.rank > 0 && of_operand[of_operand.rank - 1] != dim(1)) return {};
    }
    if (image.empty()) return {};
    for (auto& operand : in)
      if (operand.shape() != image.shape()) operand = as_image(operand, 5 - of.axis, image.shape());
    return call(n, in);
  }
  value part_of_convolution(const node& n, const part& of) {
    auto a = n.attributes_as<conv2d_attributes>();
    const shape &x = p_.type(n.inputs[0]).dims, &w = p_.type(n.inputs[1]).dims;
    if (!x[of.axis].is_number() || !w[of.axis].is_number()) return {};
    const bool rows = of.axis == 2;
    std::int64_t &before = rows ? a.padding.h : a.padding.w, &more = rows ? a.padding_more.h : a.padding_more.w;
    const std::int64_t stride = rows ? a.stride.h : a.stride.w, dilation = rows ? a.dilation.h : a.dilation.w,
                       reach = (of.count - 1) * stride + (w.at(of.axis) - 1) * dilation + 1,
                       begin = before - of.first * stride, after = reach - x.at(of.axis) - begin;
    if (of.count < 1 || begin < 0 || after < 0 || after > before + more) return {};
    before = begin;
    more = after - begin;
    return call(n, std::make_shared<const conv2d_attributes>(a), copy_.operands(n));
  }

  // ---- volumes [N, C, D, H, W] of images [N D, C, H, W] ----

  static bool swaps_frames(const node& n) {
    return is_call_of<op::permute>(n) && n.attributes_as<permute_attributes>().order == axes(0, 2, 1, 3, 4);
  }
  // Images as [N, D, C, H, W] of volumes.
  static shape split(const shape& volume) { return {volume[0], volume[2], volume[1], volume[3], volume[4]}; }
  // Swaps frames and channels as node `swap` does: programs without volumes do not contain permutations for this.
  value swapped(const value& v, std::int32_t swap) {
    const node& n = to_.at(swap);
    return {&to_, to_.add(*n.op, n.attributes, {&v, 1})};
  }
  value volume_of(const value& images, const shape& volume, std::int32_t swap) {
    return swapped(reshape(images, split(volume)), swap);
  }
  // The images of which a value is the volume; else empty.
  value images_of(const value& v) {
    const node& n = to_.at(v.id());
    if (!swaps_frames(n)) return {};
    const node& inner = to_.at(n.inputs[0]);
    const shape& s = v.shape();
    if (!reshapes(inner) || !is_image(to_, inner.inputs[0]) || !s[0].is_number() || !s[2].is_number()) return {};
    const value images(&to_, inner.inputs[0]);
    return images.shape() == shape{dim(s.at(0) * s.at(2)), s[1], s[3], s[4]} ? images : value();
  }
  // An operand that is broadcast to a volume, beside its images; empty if it differs among images.
  value beside_images(const value& v, const shape& volume, const shape& images, std::int32_t swap) {
    const shape& s = v.shape();
    if (s == volume) {
      const value of = images_of(v);
      return of.empty() ? value(reshape(swapped(v, swap), images)) : of;
    }
    if (s.rank < 3) return v;
    const dim one(1);
    if (s[s.rank - 3] != one || (s.rank == 5 && s[0] != one)) return {};
    return s.rank == 3 ? v : value(reshape(v, {s[s.rank - 4], s[s.rank - 2], s[s.rank - 1]}));
  }
  value moved_volume(const node& n) {
    const shape& volume = n.results[0].dims;
    const auto in = copy_.operands(n);
    value images;
    std::int32_t swap = -1;
    for (const auto& v : in)
      if (images.empty() && v.shape() == volume) images = images_of(v), swap = v.id().node;
    if (images.empty()) return {};
    std::vector<value> as_images;
    for (const auto& v : in) {
      as_images.push_back(beside_images(v, volume, images.shape(), swap));
      if (as_images.back().empty()) return {};
    }
    return volume_of(call(n, as_images), volume, swap);
  }
  // Volumes of images that are swapped back.
  value swapped_back(const node& n) {
    const value in = copy_.operands(n)[0];
    const node& inner = to_.at(in.id());
    return swaps_frames(inner) ? value(&to_, inner.inputs[0]) : value();
  }
  value joined_channels(const node& n) {
    const shape& whole = n.results[0].dims;
    if ((whole.rank != 3 && whole.rank != 5) || n.attributes_as<axis_attributes>().axis != 1) return {};
    std::vector<value> all;
    const auto in = copy_.operands(n);
    for (const auto& v : in) {
      all.push_back(whole.rank == 3 ? image_of(v) : images_of(v));
      if (all.back().empty() || all.back().shape()[3] != all[0].shape()[3]) return {};
    }
    return whole.rank == 3 ? value(reshape(call(n, all), whole)) : volume_of(call(n, all), whole, in[0].id().node);
  }

  // Merges a reshape of a reshape.
  value joined(const node& n) {
    const value in = copy_.operands(n)[0];
    const node& inner = to_.at(in.id());
    if (!reshapes(inner)) return {};
    const value from(&to_, inner.inputs[0]);
    return from.type() == n.results[0] ? from : value(reshape(from, n.results[0].dims));
  }

  const program& p_;
  program to_;
  rewriter copy_;
  std::optional<pattern_graph> graph_;  // of `p_`
};

}  // namespace lamina::rewriting
