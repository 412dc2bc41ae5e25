// Elementwise operations on images have operands of four axes, so that they may lie in channel blocks. One-dimensional convolutions run
// as images of one row, [N, C, 1, L]: what follows them keeps that shape, and the rank that the program has is given back behind it.
module lamina:passes.images;
import :core;
import :dtype;
import :op;
import :op.shape;
import :program;
import :rewriter;
import :shape;
import lamina.std;

namespace lamina::rewriting {

/// Whether a node gives the elements of operand 0 under another shape, however it was spelled.
bool reshapes(const node& n) { return n.op && n.op->alias == 0 && n.op->identity == identity_rule::if_types_agree; }

/// Moves elementwise operations before the reshape of images [N, C, H, W] to [N, C, L]; a number for each channel, [C, 1, 1], gets
/// the axis that it lacks.
class image_shapes {
 public:
  explicit image_shapes(const program& p) : p_(p), copy_(p, to_) {
    to_.path = p.path;
    to_.common_subexpressions = p.common_subexpressions;
  }
  /// The program with them moved; none where there are none.
  std::optional<program> run() {
    bool any = false;
    for (const auto& n : p_.nodes())
      any = any || (reshapes(n) && n.results[0].dims.rank == 3 && is_image(p_, n.inputs[0]));
    if (!any) return {};
    copy_.run([&](std::int32_t i, const node& n) {
      value made = n.op && n.op->layout_free ? moved(n) : reshapes(n) ? joined(n) : value();
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
  // The image that a value is of another shape, where that is [N, C, L]; else an empty one.
  value image_of(const value& v) {
    const node& n = to_.at(v.id());
    if (!reshapes(n) || v.shape().rank != 3 || !is_image(to_, n.inputs[0])) return {};
    value of(&to_, n.inputs[0]);
    return one_axis(of.shape(), v.shape()) < 0 ? value() : of;
  }
  // The axis of one position, of rows or columns, without which an image has a shape; -1 where there is none.
  static int one_axis(const shape& image, const shape& without) {
    for (int axis : {2, 3})
      if (image[axis] == dim(1) && image[5 - axis] == without[2] && image[0] == without[0] && image[1] == without[1])
        return axis;
    return -1;
  }
  // An operand of an operation on images, of which it lacks `axis`.
  value as_image(const value& v, int axis, const shape& image) {
    if (value of = image_of(v); !of.empty() && of.shape() == image) return of;
    const shape& s = v.shape();
    const int behind = 3 - axis;  // axes of an image behind that of one position
    if (s.rank <= behind) return v;
    shape with;
    for (int i = 0; i < s.rank; ++i) {
      if (s.rank - i == behind) with.push_back(dim(1));
      with.push_back(s[i]);
    }
    if (behind == 0) with.push_back(dim(1));
    if (with.rank == 3) with = {dim(1), with[0], with[1], with[2]};
    return reshape(v, with);
  }
  // Operands of an operation on images: the numbers of channels get an axis, where they do not join a convolution.
  value with_all_axes(const node& n) {
    const auto in = copy_.operands(n);
    const shape channels{n.results[0].dims[1], dim(1), dim(1)};
    std::vector<value> all;
    bool any = false, image = false;
    for (const auto& v : in) {
      const node& of = to_.at(v.id());
      const bool lacks = v.shape() == channels && v.shape().size() != 1;
      any = any || lacks;
      image = image || (is_image(to_, v.id()) && v.shape() == n.results[0].dims && !of.op->channels);
      all.push_back(lacks ? value(reshape(v, {dim(1), channels[0], dim(1), dim(1)})) : v);
    }
    return any && image ? call(n, all) : value();
  }
  value call(const node& n, const std::vector<value>& in) {
    to_.path = n.path.empty() ? p_.path : n.path;
    const value made(&to_, to_.add(*n.op, n.attributes, in));
    to_.path = p_.path;
    return made;
  }
  value moved(const node& n) {
    if (n.results.size() == 1 && n.results[0].dims.rank == 4) return with_all_axes(n);
    if (n.results.size() != 1 || n.results[0].dims.rank != 3) return {};
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
  // A reshape of a reshape.
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
};

}  // namespace lamina::rewriting
