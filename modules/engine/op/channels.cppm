// Channels of images in another order.
export module lamina:op.channels;
import :core;
import :dtype;
import :emission;
import :op;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Of the shuffled channels those from `start` on, `count` of them; -1: all that follow. `inverse`: back to where a shuffle of so many
/// groups takes them from.
struct channel_shuffle_attributes {
  std::int64_t groups = 1, start = 0, count = -1;
  bool inverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("groups", a.groups), f("start", a.start), f("count", a.count), f("inverse", a.inverse);
  }
  bool operator==(const channel_shuffle_attributes&) const = default;
};

namespace op {
/// Operands one behind the other along axis 1.
struct channel_shuffle : in_patterns<rewriting::channel_shuffle_pattern> {
  static constexpr std::string_view name = "channel_shuffle";
  static constexpr int operands = -1;
  static constexpr bool keeps_elements = true;
  using attributes = channel_shuffle_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
}  // namespace op

using channel_operations = operation_list<op::channel_shuffle>;
template <Operation Op> requires channel_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

/// Channels of `groups` equal groups in turn: the first of each group, the second of each, and so on. Of several values those of their
/// concatenation along axis 1.
/// Shapes: x [N, C, ...] -> [N, count, ...].   Units: none.
/// Errors: shape_error where the channels are no multiple of `groups`, or do not reach as far as the part asked for.
/// Source: Zhang, Zhou, Lin, Sun, "ShuffleNet" (2017), arXiv:1707.01083.
export value channel_shuffle(view<const value> x, const channel_shuffle_attributes& a, const origin& = {});
export value channel_shuffle(const value& x, std::int64_t groups, const origin& = {});

}  // namespace lamina
