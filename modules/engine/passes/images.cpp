// Gives elementwise operations on images four axes, so that they can use channel blocks. One-dimensional convolutions
// run as images of one row, [N, C, 1, L]: operations after them keep that shape, and the program's rank is restored at
// the end.
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

/// Whether a node is a reshape of operand 0, in any spelling.
bool reshapes(const node& n) { return n.op && n.op->alias == 0 && n.op->identity == identity_rule::if_types_agree; }

/// Moves elementwise operations before the reshape of images [N, C, H, W] to [N, C, L]; per-channel numbers [C, 1, 1]
/// get the missing axis.
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
  // The image [N, C, H, W] that a value [N, C, L] is a reshape of; else empty.
  value image_of(const value& v) {
    const node& n = to_.at(v.id());
    if (!reshapes(n) || v.shape().rank != 3 || !is_image(to_, n.inputs[0])) return {};
    value of(&to_, n.inputs[0]);
    return one_axis(of.shape(), v.shape()) < 0 ? value() : of;
  }
  // The axis of extent 1, rows or columns, whose removal turns `image` into `without`; -1 if there is none.
  static int one_axis(const shape& image, const shape& without) {
    for (int axis : {2, 3})
      if (image[axis] == dim(1) && image[5 - axis] == without[2] && image[0] == without[0] && image[1] == without[1])
        return axis;
    return -1;
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
  // An operation on images whose per-channel numbers get all axes; empty if they can be fused into a convolution.
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
};

}  // namespace lamina::rewriting
