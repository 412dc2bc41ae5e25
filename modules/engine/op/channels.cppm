// Channel shuffles of images.
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

/// Selects `count` shuffled channels from `start` on; -1: all the rest. `inverse`: undoes a shuffle of `groups` groups.
struct channel_shuffle_attributes {
  std::int64_t groups = 1, start = 0, count = -1;
  bool inverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("groups", a.groups), f("start", a.start), f("count", a.count), f("inverse", a.inverse);
  }
  bool operator==(const channel_shuffle_attributes&) const = default;
};

namespace op {
/// Operands are concatenated along axis 1.
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

/// Interleaves `groups` equal groups of channels: the first channel of each group, the second of each, and so on.
/// Several values are concatenated along axis 1 first.
/// Shapes: x [N, C, ...] -> [N, count, ...].   Units: none.
/// Errors: shape_error where the channels are not a multiple of `groups`, or fewer than the selected range needs.
/// Source: Zhang, Zhou, Lin, Sun, "ShuffleNet" (2017), arXiv:1707.01083.
export value channel_shuffle(view<const value> x, const channel_shuffle_attributes& a, const origin& = {});
export value channel_shuffle(const value& x, std::int64_t groups, const origin& = {});

}  // namespace lamina
